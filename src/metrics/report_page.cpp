// The page of a report: a template and a chart library, both compiled in, filled with the table and the points of the curves.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "metrics/embedded.h"
#include "metrics/report.h"

namespace trine {
namespace {

constexpr size_t kMostPoints = 1500;  // of a curve; more steps are averaged in groups

// Text between tags.
std::string escaped(std::string_view text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '&': html += "&amp;"; break;
      case '<': html += "&lt;"; break;
      case '>': html += "&gt;"; break;
      default: html += c;
    }
  }
  return html;
}

std::string table_html(std::span<const RunReport> runs) {
  std::string html = "<table>\n";
  for (const auto& row : report_cells(runs)) {
    html += "<tr><th>" + escaped(row[0]) + "</th>";
    for (size_t column = 1; column < row.size(); ++column) html += "<td>" + escaped(row[column]) + "</td>";
    html += "</tr>\n";
  }
  return html + "</table>";
}

// NaN and infinity are gaps in a curve.
OrderedJson point(double value) { return std::isfinite(value) ? OrderedJson(value) : OrderedJson(); }

OrderedJson curves(const RunReport& run) {
  const auto& steps = run.history.steps;
  const size_t group = (steps.size() + kMostPoints - 1) / kMostPoints;
  OrderedJson step = OrderedJson::array(), loss = step, grad_norm = step, lr = step, tps = step;
  for (size_t begin = 0; begin < steps.size(); begin += group) {
    const std::span members = std::span(steps).subspan(begin, std::min(group, steps.size() - begin));
    double loss_sum = 0, norm_sum = 0, lr_sum = 0, seconds = 0, tokens = 0;
    for (const auto& member : members) {
      loss_sum += member.loss;
      norm_sum += member.grad_norm;
      lr_sum += member.lr;
      seconds += member.seconds;
      tokens += static_cast<double>(member.tokens);
    }
    const double count = static_cast<double>(members.size());
    step.push_back(members.back().step);
    loss.push_back(point(loss_sum / count));
    grad_norm.push_back(point(norm_sum / count));
    lr.push_back(point(lr_sum / count));
    tps.push_back(point(tokens / seconds));
  }
  OrderedJson validation = {{"step", OrderedJson::array()}, {"loss", OrderedJson::array()}};
  for (const auto& record : run.history.validations) {
    validation["step"].push_back(record.step);
    validation["loss"].push_back(point(record.loss));
  }
  return {{"name", run.name},
          {"steps_per_point", group},
          {"train", {{"step", step}, {"loss", loss}, {"grad_norm", grad_norm}, {"lr", lr}, {"tps", tps}}},
          {"validation", validation}};
}

// JSON that may stand within a script element: no `<` begins a tag there.
std::string script_safe(const OrderedJson& json) {
  std::string safe;
  for (const char c : json.dump(-1, ' ', /*ensure_ascii=*/true, OrderedJson::error_handler_t::replace)) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string report_page(std::span<const RunReport> runs) {
  OrderedJson data = OrderedJson::array();
  for (const RunReport& run : runs) data.push_back(curves(run));
  const auto value_of = [&](std::string_view name) -> std::string {
    if (name == "TABLE") return table_html(runs);
    if (name == "DATA") return script_safe(data);
    return std::string(kChartLibrary);
  };
  std::string page;
  std::string_view rest = kReportPage;
  for (size_t open; (open = rest.find("{{")) != std::string_view::npos;) {
    const size_t close = rest.find("}}", open);
    page += rest.substr(0, open);
    page += value_of(rest.substr(open + 2, close - open - 2));
    rest.remove_prefix(close + 2);
  }
  return page.append(rest);
}

}  // namespace trine
