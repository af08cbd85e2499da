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
#include "programs/load/load_meter.h"
#include "programs/srp/initiator_device.h"
#include "programs/srp/session_leg.h"
#include "programs/srp/target_url.h"

namespace weft::programs::srp {

class LoadRun final : private SessionLegClient {
 public:
  /// `device` as libibverbs has it; empty: the first.
  LoadRun(TargetUrl target, std::string device, load::LoadOptions options, load::LoadMeter meter);
  ~LoadRun() = default;
  LoadRun(const LoadRun&) = delete;
  LoadRun& operator=(const LoadRun&) = delete;

  /// Returns when the time is over, or when no session is left. Once.
  [[nodiscard]] Result<load::LoadResult> run();

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
  [[nodiscard]] bool has_ended() const;

  void handle_outcome(SessionLeg& leg, std::uint64_t id,
                      const weft::srp::Outcome& outcome) override;
  void handle_state(SessionLeg& leg, weft::srp::PathState state) override;
  void handle_designators(SessionLeg& /*leg*/,
                          const Result<std::vector<std::byte>>& /*page*/) override {}
  void handle_reason(SessionLeg& /*leg*/, const std::string& reason) override {
    meter_.result().reason = reason;
  }
  void handle_settled() override {}

  const TargetUrl target_;
  const std::string device_name_;
  const load::LoadOptions options_;
  load::LoadMeter meter_;
  asio::io_context loop_;
  asio::steady_timer timer_{loop_};
  std::unique_ptr<InitiatorDevice> device_;
  std::vector<Lane> lanes_;
  bool is_ending_{};
};

}  // namespace weft::programs::srp
