// grouped_experts on the CPU: torch's matrix products, each on one thread, and the loops of expert_rows_cpu.h between them.
//
// Experts are spread over threads: a mixture has tens of them with few tokens each, so its products are too small to be worth all
// threads' while, and no thread waits for another inside an expert. An expert with many rows is cut into several tasks. Row counts
// alone decide how, never the number of threads, so that this number changes no bit of the result.
#include <torch/torch.h>

#include <atomic>

#include "ops/expert_order_cpu.h"
#include "ops/expert_rows_cpu.h"
#include "ops/grouped_experts_parts.h"
#include "ops/swiglu_cpu.h"
#include "ops/tensor_values.h"

namespace trine {
namespace {

constexpr int64_t kTaskRows = 256;   // enough for a product's full speed; an expert with more is cut evenly
constexpr int64_t kWaveRows = 4096;  // rows whose intermediate values backward holds at a time (more if one expert has more)

// Rows begin .. end of one expert, the index-th of `parts` pieces. An expert without rows is one piece without rows.
struct Task {
  int64_t expert, begin, end, index, parts;
};

std::vector<Task> make_tasks(const ExpertOrder& order, int64_t first_expert, int64_t last_expert) {
  std::vector<Task> tasks;
  for (int64_t e = first_expert; e < last_expert; ++e) {
    const int64_t begin = order.begin[static_cast<size_t>(e)], end = order.begin[static_cast<size_t>(e + 1)];
    const int64_t parts = std::max<int64_t>(1, (end - begin + kTaskRows - 1) / kTaskRows);
    const int64_t even = (end - begin + parts - 1) / parts;
    const int64_t step = (even + kExpertRowMultiple - 1) / kExpertRowMultiple * kExpertRowMultiple;
    for (int64_t i = 0; i < parts; ++i) tasks.push_back({e, begin + i * step, std::min(begin + (i + 1) * step, end), i, parts});
  }
  return tasks;
}

// Calls action(task) for all of them, each thread taking the next one that is free. As many items as threads, even for a single task:
// only inside a parallel region does a product stay on its thread.
template <class Action>
void run_tasks(const std::vector<Task>& tasks, const Action& action) {
  std::atomic<size_t> next = 0;
  at::parallel_for(0, at::get_num_threads(), 1, [&](int64_t, int64_t) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;  // a worker thread does not inherit it
    for (size_t i = next++; i < tasks.size(); i = next++) action(tasks[i]);
  });
}

at::Tensor rows_of(const at::Tensor& tensor, int64_t begin, int64_t end) { return tensor.narrow(0, begin, end - begin); }

void multiply(at::Tensor to, const at::Tensor& a, const at::Tensor& b) { at::mm_out(to, a, b); }

// gradient = aᵀ b, or added. Exactly zero where there are no rows.
void put_product(at::Tensor gradient, const at::Tensor& a_rm, const at::Tensor& b_rn, bool add) {
  if (a_rm.size(0) == 0) {
    if (!add) gradient.zero_();
  } else if (gradient.scalar_type() != a_rm.scalar_type()) {
    const at::Tensor product = at::mm(a_rm.t(), b_rn);
    add ? gradient.add_(product) : gradient.copy_(product);
  } else if (add) {
    gradient.addmm_(a_rm.t(), b_rn);
  } else {
    at::mm_out(gradient, a_rm.t(), b_rn);
  }
}

// The part of a weight's gradient that a task does: its rows, cut like the task's expert.
at::Tensor part_of(const at::Tensor& gradient_mn, const Task& task) {
  const int64_t rows = gradient_mn.size(0);
  return rows_of(gradient_mn, rows * task.index / task.parts, rows * (task.index + 1) / task.parts);
}
at::Tensor columns_for_part(const at::Tensor& rows_rm, const Task& task) {
  const int64_t columns = rows_rm.size(1), begin = columns * task.index / task.parts;
  return rows_rm.narrow(1, begin, columns * (task.index + 1) / task.parts - begin);
}

// The inputs as the kernels need them.
struct Prepared {
  at::Tensor x_th, gate_up_eih, down_ehi, weights_tk;
  int64_t num_tokens, top_k, hidden, inner, num_experts;
  ExpertOrder order;
};

Prepared prepare(const ExpertInputs& in) {
  check_expert_inputs(in);
  Prepared p{in.x_th.contiguous(), in.gate_up_eih, in.down_ehi, in.weights_tk.to(at::kFloat).contiguous(),
             in.x_th.size(0), in.experts_tk.size(1), in.x_th.size(1), in.down_ehi.size(2), in.gate_up_eih.size(0), {}};
  const at::Tensor experts = in.experts_tk.contiguous();
  const int64_t* ids = values_of<int64_t>(experts);
  for (int64_t i = 0; i < experts.numel(); ++i) {
    TORCH_CHECK_INDEX(ids[i] >= 0 && ids[i] < p.num_experts, "grouped_experts: experts from 0 to ", p.num_experts - 1,
                      " expected, found ", ids[i]);
  }
  p.order = order_by_expert(ids, experts.numel(), p.num_experts);
  return p;
}

// y_th = Σ_j weight · rows of each token's choices; null weights stand for ones.
template <class Value>
at::Tensor combine(const Prepared& p, const at::Tensor& rows_rh, const float* weights) {
  at::Tensor y_th = at::empty(p.x_th.sizes(), p.x_th.options());
  parallel_items(p.num_tokens, p.hidden * p.top_k, [&](int64_t begin, int64_t end) {
    combine_rows_cpu(values_of<Value>(rows_rh), p.order.row.data(), weights, p.top_k, begin, end, p.hidden,
                     writable_values_of<Value>(y_th), instruction_set());
  });
  return y_th;
}

template <class Value>
ExpertPair forward(const Prepared& p) {
  const int64_t num_rows = p.order.begin.back();
  at::Tensor kept = at::empty({most_expert_rows(p.num_tokens * p.top_k, p.num_experts), 2 * p.inner}, p.x_th.options());
  kept.narrow(0, num_rows, kept.size(0) - num_rows).zero_();
  at::Tensor x_rh = at::empty({num_rows, p.hidden}, p.x_th.options()), act_ri = at::empty({num_rows, p.inner}, p.x_th.options());
  run_tasks(make_tasks(p.order, 0, p.num_experts), [&](const Task& task) {
    const int64_t rows = task.end - task.begin;
    if (rows == 0) return;
    const at::Tensor x = rows_of(x_rh, task.begin, task.end), gate_up = rows_of(kept, task.begin, task.end);
    const at::Tensor act = rows_of(act_ri, task.begin, task.end);
    gather_rows_cpu(values_of<Value>(p.x_th), &p.order.choice[static_cast<size_t>(task.begin)], p.top_k, rows, p.hidden,
                    writable_values_of<Value>(x));
    multiply(gate_up, x, p.gate_up_eih.select(0, task.expert).t());
    const Value* gate = values_of<Value>(gate_up);
    swiglu_rows_cpu<Value>({gate, gate + p.inner, 2 * p.inner, 2 * p.inner, rows, p.inner}, writable_values_of<Value>(act),
                           instruction_set());
    multiply(x, act, p.down_ehi.select(0, task.expert).t());  // the experts' outputs take the place of their inputs
  });
  return {combine<Value>(p, x_rh, values_of<float>(p.weights_tk)), kept};
}

template <class Value>
ExpertPair backward(const Prepared& p, const at::Tensor& dy_th, const at::Tensor& kept, const ExpertGradients& to) {
  const std::vector<int64_t>& begins = p.order.begin;
  at::Tensor dweights_tk = at::empty(p.weights_tk.sizes(), p.weights_tk.options());
  at::Tensor dx_rh = at::empty({begins.back(), p.hidden}, p.x_th.options());
  int64_t most_rows = 0;
  std::vector<std::pair<int64_t, int64_t>> waves;  // of experts, first .. last
  for (int64_t first = 0, last = 0; first < p.num_experts; first = last) {
    const auto rows_to = [&](int64_t e) { return begins[static_cast<size_t>(e)] - begins[static_cast<size_t>(first)]; };
    for (++last; last < p.num_experts && rows_to(last + 1) <= kWaveRows;) ++last;
    waves.emplace_back(first, last);
    most_rows = std::max(most_rows, rows_to(last));
  }
  const auto scratch = [&](int64_t columns) { return at::empty({most_rows, columns}, p.x_th.options()); };
  const at::Tensor x_rh = scratch(p.hidden), dy_rh = scratch(p.hidden), act_ri = scratch(p.inner), dgate_up_ri = scratch(2 * p.inner);
  for (const auto& [first, last] : waves) {
    const int64_t wave_begin = begins[static_cast<size_t>(first)];
    const std::vector<Task> tasks = make_tasks(p.order, first, last);
    // The gradient of x, and by row what the weights' gradients need.
    run_tasks(tasks, [&](const Task& task) {
      const int64_t rows = task.end - task.begin;
      if (rows == 0) return;
      const auto part = [&](const at::Tensor& all) { return rows_of(all, task.begin - wave_begin, task.end - wave_begin); };
      const at::Tensor x = part(x_rh), dy = part(dy_rh), act = part(act_ri), dgate_up = part(dgate_up_ri);
      const int64_t* choices = &p.order.choice[static_cast<size_t>(task.begin)];
      gather_rows_cpu(values_of<Value>(p.x_th), choices, p.top_k, rows, p.hidden, writable_values_of<Value>(x));
      gather_rows_cpu(values_of<Value>(dy_th), choices, p.top_k, rows, p.hidden, writable_values_of<Value>(dy));
      multiply(act, dy, p.down_ehi.select(0, task.expert));  // the gradient of act; the loop below puts weight · act in its place
      expert_activation_backward_cpu<Value>({values_of<Value>(rows_of(kept, task.begin, task.end)), values_of<Value>(act), choices,
                                             values_of<float>(p.weights_tk), rows, p.inner},
                                            writable_values_of<Value>(act), writable_values_of<Value>(dgate_up),
                                            writable_values_of<float>(dweights_tk), instruction_set());
      multiply(rows_of(dx_rh, task.begin, task.end), dgate_up, p.gate_up_eih.select(0, task.expert));
    });
    run_tasks(tasks, [&](const Task& task) {
      const auto all_rows = [&](const at::Tensor& all) {
        const size_t e = static_cast<size_t>(task.expert);
        return rows_of(all, begins[e] - wave_begin, begins[e + 1] - wave_begin);
      };
      put_product(part_of(to.gate_up_eih.select(0, task.expert), task), columns_for_part(all_rows(dgate_up_ri), task), all_rows(x_rh),
                  to.add_to_gate_up);
      put_product(part_of(to.down_ehi.select(0, task.expert), task), columns_for_part(all_rows(dy_rh), task), all_rows(act_ri),
                  to.add_to_down);
    });
  }
  return {combine<Value>(p, dx_rh, nullptr), dweights_tk};
}

}  // namespace

ExpertPair experts_forward_on_cpu(const ExpertInputs& in) {
  const Prepared p = prepare(in);
  ExpertPair result;
  with_value_type(in.x_th, [&](auto value) { result = forward<decltype(value)>(p); });
  return result;
}

ExpertPair experts_backward_on_cpu(const at::Tensor& dy_th, const ExpertInputs& in, const at::Tensor& kept, const ExpertGradients& to) {
  const Prepared p = prepare(in);
  const at::Tensor dy = dy_th.to(in.x_th.scalar_type()).contiguous();
  ExpertPair result;
  with_value_type(in.x_th, [&](auto value) { result = backward<decltype(value)>(p, dy, kept, to); });
  return {std::get<0>(result), std::get<1>(result).to(in.weights_tk.scalar_type())};
}

}  // namespace trine
