#include "verify/case_runner.h"

#include <algorithm>
#include <set>

#include "train/growth.h"

namespace heddle {

CaseRunner::CaseRunner(CaseConfig c, const std::string& path, Communicator& w, int width, const Kernels& k)
    : config(std::move(c)),
      file(path, h5::File::Mode::kRead),
      world(w),
      kernels(k),
      expert_parallel(width),
      groups(w, width) {
  for (int64_t m = 0; m < config.micro_batches; ++m) {
    CaseRows all;
    for (int64_t r = 0; r < config.ranks; ++r) {
      const int64_t begin = config.batch * r / config.ranks, rows = config.batch * (r + 1) / config.ranks - begin;
      for (int64_t i = rows * m / config.micro_batches; i < rows * (m + 1) / config.micro_batches; ++i)
        all.push_back(begin + i);
    }
    const auto n = static_cast<int64_t>(all.size());
    micro_batches.emplace_back(all.begin() + n * world.rank() / world.size(),
                               all.begin() + n * (world.rank() + 1) / world.size());
  }
}

void CaseRunner::check_extent(const std::string& name, const h5::Extent& expected) const {
  const h5::Extent found = file.extent(name);
  const bool both_scalar = expected.empty() && h5::element_count(found) == 1;
  if (found != expected && !both_scalar)
    fail("'{}': {} has shape [{}], expected [{}] from config.json", file.path(), name, fmt::join(found, ", "),
         fmt::join(expected, ", "));
  read_.insert(name);
}

void CaseRunner::refuse_unread() const {
  for (const std::string& dataset : file.datasets("/")) {
    const std::string name = dataset.starts_with("/") ? dataset : "/" + dataset;
    if (!read_.contains(name))
      throw Error(fmt::format("'{}': {} is nothing that this build compares", file.path(), name),
                  "docs/reference_cases.md and docs/model_family.md, section 7, name the datasets of a case");
  }
}

void CaseRunner::check_loops(const std::string& name, const std::vector<int32_t>& counts, int32_t least) const {
  for (const int32_t count : counts)
    if (count < least || count > kMostLoops)
      fail("'{}': {} holds {}, expected {} to {} loops", file.path(), name, count, least, kMostLoops);
}

void CaseRunner::add_number(const std::string& quantity, const std::string& tensor, double found, double expected) {
  if (speaks())
    comparison.add(quantity, tensor, found, expected);
  else
    comparison.add(quantity, tensor, std::span<const float>(), {});
}

namespace {

/// Whether a tensor belongs to loops that come with growth, so that a case has no start values for it.
bool comes_later(const CaseRunner& run, const std::string& name) {
  return loop_of_tensor(name, run.config.model.tied) >= run.initial_loops();
}

/// Copies a stored tensor, whose first axis may be shorter than the model's: rows by loop before growth.
void load(const CaseRunner& run, const std::string& name, const Shape& global, int64_t offset, const Tensor& value) {
  const std::string dataset = "/params_init/" + name;
  if (!run.has(dataset) && comes_later(run, name)) return;
  h5::Extent extent(global.begin(), global.end());
  const bool by_loop = name.starts_with("hyper.") || name == "condition.embedding" || name == "condition.loop" ||
                       (name.ends_with("balance_bias") && global.size() == 2);
  if (by_loop) extent[0] = static_cast<uint64_t>(run.initial_loops());
  const std::vector<float> all = run.read<float>(dataset, extent);
  const int64_t count = std::min(value.count(), static_cast<int64_t>(all.size()) - offset);
  // Rows by loop that the file lacks keep what they hold.
  value.flat(0, {count}).set<float>({all.data() + offset, static_cast<size_t>(count)});
}

}  // namespace

std::unique_ptr<LoopedModel> CaseRunner::make_model(double capacity_factor) {
  ModelConfig shape = config.model;
  shape.moe.capacity_factor = capacity_factor;
  auto model = std::make_unique<LoopedModel>(shape, groups, kernels);
  model->parameters().allocate_gradients();
  model->set_active_loops(initial_loops());
  std::set<std::string> known;
  for (Parameter& p : model->parameters().all()) {
    load(*this, p.name, p.global_shape, p.global_offset(), p.value);
    known.insert(p.name);
  }
  for (int64_t l = 0; l < model->stored_moe_layers(); ++l) {
    load(*this, model->balance_bias_name(l), model->balance_bias(l).shape(), 0, model->balance_bias(l));
    known.insert(model->balance_bias_name(l));
  }
  for (const std::string& name : file.datasets("/params_init"))
    if (!known.contains(name)) fail("'{}': /params_init/{} is not a tensor of this model", file.path(), name);
  return model;
}

std::vector<TokenBatch> CaseRunner::read_batches(int64_t step) const {
  const int64_t s = config.sequence, d = config.model.hidden_size;
  const auto tokens = read<int32_t>("/batches/tokens", extent({config.steps, config.batch, s + 1}));
  const auto marks = [&](bool there, const char* name) {
    return there ? read<int32_t>(name, extent({config.steps, config.batch, s})) : std::vector<int32_t>();
  };
  const std::vector<int32_t> ignored = marks(config.ignored, "/batches/ignored");
  const std::vector<int32_t> starts = marks(config.documents, "/batches/document");
  std::vector<float> noise;
  if (config.model.initial_state == InitialState::kNoise)
    noise = read<float>("/batches/noise", extent({config.steps, config.batch, s, d}));

  std::vector<TokenBatch> batches;
  for (const CaseRows& rows : micro_batches) {
    const auto count = static_cast<int64_t>(rows.size());
    TokenBatch& batch = batches.emplace_back(TokenBatch{count, s, {}, {}, {}, {}, {}});
    const int64_t n = count * s;
    std::vector<int32_t> inputs, targets, positions, document_starts;
    std::vector<float> rows_noise;
    for (int64_t r = 0; r < count; ++r) {
      const int64_t row = step * config.batch + rows[static_cast<size_t>(r)];
      if (!noise.empty())
        rows_noise.insert(rows_noise.end(), noise.begin() + row * s * d, noise.begin() + (row + 1) * s * d);
      const int32_t* const text = tokens.data() + row * (s + 1);
      int64_t start = 0;
      for (int64_t i = 0; i < s; ++i) {
        for (const int32_t token : {text[i], text[i + 1]})
          if (token < 0 || token >= config.model.vocabulary_size)
            fail("'{}': token {} in /batches/tokens, vocabulary {}", file.path(), token, config.model.vocabulary_size);
        const auto at = static_cast<size_t>(row * s + i);
        if (!starts.empty() && starts[at] != 0) start = i;
        inputs.push_back(text[i]);
        targets.push_back(!ignored.empty() && ignored[at] != 0 ? kIgnoredTarget : text[i + 1]);
        positions.push_back(static_cast<int32_t>(i - start));
        document_starts.push_back(static_cast<int32_t>(start));
      }
    }
    const auto fill = [n](Tensor& tensor, const std::vector<int32_t>& values) {
      tensor = Tensor::empty({n}, Purpose::kActivations, DType::kInt32);
      tensor.set<int32_t>(values);
    };
    fill(batch.tokens, inputs);
    fill(batch.targets, targets);
    fill(batch.position, positions);
    fill(batch.document_start, document_starts);
    if (!noise.empty()) {
      batch.noise = Tensor::empty({n, d}, Purpose::kActivations);
      batch.noise.set<float>(rows_noise);
    }
  }
  return batches;
}

}  // namespace heddle
