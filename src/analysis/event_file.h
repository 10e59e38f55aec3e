// TensorBoard's event files: TFRecord frames around protocol buffers (tensorflow/core/util/event.proto and
// framework/summary.proto), written by hand, since they need few of the fields.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle {

/// A histogram: bucket i counts `counts[i]` values in (limits[i - 1], limits[i]].
struct EventHistogram {
  double min = 0, max = 0;
  std::vector<double> limits, counts;
};

/// The values of one step. Texts of tags are UTF-8; "/" parts a tag into groups.
struct EventValues {
  std::vector<std::pair<std::string, double>> scalars;  ///< as float32
  std::vector<std::pair<std::string, EventHistogram>> histograms;
};

/// Length, masked CRC-32C of it, payload, masked CRC-32C of that.
std::string tfrecord(std::string_view payload);

/// Serialised Event messages. `wall_time` in Unix seconds.
std::string version_event(double wall_time);
/// A session starts at `step`: readers drop what older files hold from there on.
std::string start_event(double wall_time, int64_t step);
std::string values_event(double wall_time, int64_t step, const EventValues& values);

/// One file that grows. What was written is with the operating system when a call returns.
class EventFile {
 public:
  /// Creates `path`, which must not be there. Throws Error.
  explicit EventFile(const std::string& path);
  /// Throws Error when the event was not written, as on a full disk.
  void append(std::string_view event);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace heddle
