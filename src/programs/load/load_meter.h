#pragma once

// Which blocks a load reads or writes next, and what comes of it.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "programs/load/load_options.h"
#include "scsi/disk_requests.h"

namespace weft::programs::load {

/// What came of it; times of the commands in microseconds.
struct LoadResult {
  unsigned sessions{};  ///< that were logged in
  unsigned refused{};   ///< logins that failed
  unsigned lost{};      ///< connections, after their logins
  std::uint64_t commands{};
  std::uint64_t failed{};  ///< commands that ended otherwise than well
  double login_seconds{};  ///< until the last session was there
  double seconds{};        ///< from then on
  double median_us{};
  double percentile_99_us{};
  double cpu_us{};  ///< of this process, user and system, for each command
  std::string reason{};
  bool operator==(const LoadResult&) const = default;

  [[nodiscard]] bool is_whole() const { return failed == 0 && refused == 0 && lost == 0; }
};

/// The time below which this share of the samples lies; 0 where there are none. Reorders them.
[[nodiscard]] double percentile(std::vector<float>& samples, double share);
/// One line of JSON.
[[nodiscard]] std::string to_json(const LoadResult& result, std::uint32_t bytes);
/// For people.
[[nodiscard]] std::string to_text(const LoadResult& result, std::uint32_t bytes);
/// On standard output; on standard error why it is not whole.
void print(const LoadResult& result, const LoadOptions& options, const char* program);

class LoadMeter {
 public:
  /// InvalidArgument: the unit has no room for a command.
  [[nodiscard]] static Result<LoadMeter> create(const scsi::DiskProperties& unit,
                                                const LoadOptions& options);

  /// Of the next command.
  [[nodiscard]] scsi::DiskExtent next();

  /// The logins begin.
  void start(Instant now) { started_ = now; }
  /// Every login has ended.
  void begin(Instant now);
  [[nodiscard]] bool has_begun() const { return measured_from_ != Instant::never(); }
  /// Its time is over.
  [[nodiscard]] bool is_over(Instant now) const;
  /// A command that was answered. A unit attention, of which each session hears once what happened
  /// before it (SAM-5 §5.14), is neither a command nor a failure.
  void count(scsi::Verdict verdict, Instant began, Instant now);
  /// One that was not.
  void count_failure() { ++result_.failed; }
  /// No command counts from here on.
  void end(Instant now);

  /// For what else there is to tell.
  [[nodiscard]] LoadResult& result() { return result_; }
  /// Once, after end().
  [[nodiscard]] LoadResult finish();

 private:
  LoadMeter(const scsi::DiskProperties& unit, const LoadOptions& options);

  std::uint64_t places_;  // of the unit, of a command each
  std::uint32_t blocks_;  // of a command
  bool is_sequential_;
  Duration span_;
  std::uint64_t place_;         // of the next command: its number, or the state of the numbers
  std::vector<float> samples_;  // microseconds
  Instant started_;
  Instant measured_from_{Instant::never()};
  Duration cpu_before_{};
  Duration cpu_used_{};
  LoadResult result_;
};

}  // namespace weft::programs::load
