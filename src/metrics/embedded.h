// Files that are compiled into the program, so that a report needs nothing installed beside it.
#pragma once

#include <string_view>

namespace trine {

extern const std::string_view kReportPage;    // report_page.html, with {{TABLE}}, {{DATA}} and {{CHART_LIBRARY}} to be filled in
extern const std::string_view kChartLibrary;  // Chart.js, minified, from Debian's libjs-chart.js

}  // namespace trine
