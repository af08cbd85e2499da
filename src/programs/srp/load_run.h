#pragma once

// Sessions of one process and one thread that keep commands of one kind under way with a unit.

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "programs/srp/initiator_device.h"
#include "programs/srp/session_leg.h"
#include "programs/srp/target_url.h"

namespace weft::programs::srp {

struct LoadOptions {
  std::string device{};  ///< as libibverbs has it; empty: the first
  unsigned sessions{1};  ///< each an initiator of its own, all logged in to at once
  unsigned depth{32};    ///< commands under way, of each session
  std::uint32_t bytes{4096};
  unsigned seconds{5};
  bool writes{};
  bool is_sequential{};  ///< otherwise at random
  unsigned fast_fail_seconds{30};
};

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
};

/// The time below which this share of the samples lies; 0 where there are none. Reorders them.
[[nodiscard]] double percentile(std::vector<float>& samples, double share);
/// One line of JSON.
[[nodiscard]] std::string to_json(const LoadResult& result, std::uint32_t bytes);
/// For people.
[[nodiscard]] std::string to_text(const LoadResult& result, std::uint32_t bytes);

class LoadRun final : private SessionLegClient {
 public:
  /// Of a unit of `blocks` blocks.
  LoadRun(TargetUrl target, std::uint64_t blocks, std::uint32_t block_bytes, LoadOptions options);
  ~LoadRun() = default;
  LoadRun(const LoadRun&) = delete;
  LoadRun& operator=(const LoadRun&) = delete;

  /// Returns when the time is over, or when no session is left. InvalidArgument: the unit has no
  /// room for a command.
  /// Once.
  [[nodiscard]] Result<LoadResult> run();

 private:
  struct Slot {
    BufferPool::Lease buffer;
    Instant began;
  };
  struct Lane {  // of a session
    std::unique_ptr<SessionLeg> leg;
    std::vector<Slot> slots;
    bool was_live{};
    bool is_over{};  // it will not come (again)
  };

  Result<void> open();
  void tick();
  void begin();
  void end();
  void submit(Lane& lane, std::size_t slot);
  [[nodiscard]] std::uint64_t next_block();
  [[nodiscard]] bool has_ended() const;

  void handle_outcome(SessionLeg& leg, std::uint64_t id,
                      const weft::srp::Outcome& outcome) override;
  void handle_state(SessionLeg& leg, weft::srp::PathState state) override;
  void handle_designators(SessionLeg& /*leg*/,
                          const Result<std::vector<std::byte>>& /*page*/) override {}
  void handle_reason(SessionLeg& /*leg*/, const std::string& reason) override {
    result_.reason = reason;
  }
  void handle_settled() override {}

  const TargetUrl target_;
  const std::uint64_t blocks_;
  const std::uint32_t block_bytes_;
  const LoadOptions options_;
  asio::io_context loop_;
  asio::steady_timer timer_{loop_};
  std::unique_ptr<InitiatorDevice> device_;
  std::vector<Lane> lanes_;
  std::vector<float> samples_;  // microseconds
  std::uint64_t place_{};       // of the next command: its number, or the state of the numbers
  Instant started_;
  Instant measured_from_{Instant::never()};  // when every login had ended
  Duration cpu_before_{};
  bool is_ending_{};
  LoadResult result_;
};

}  // namespace weft::programs::srp
