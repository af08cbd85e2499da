#pragma once

// A program that is connected by ibsim's protocol, as its node sees it: an open umad device, whose
// agents and timeouts the program does not tell. It holds no socket and no clock.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "daemon/ibsim/messages.h"
#include "node/umad_file.h"

namespace weft::daemon {

class IbsimClient {
 public:
  /// Requests that are not answered; policy.
  static constexpr std::size_t kMaxOpen = 4'096;
  /// Until a request comes back, which ibsim does at once when there is no way: SMPs are answered
  /// by agents, what is on QP1 by programs, which take their time. Policy.
  static constexpr std::uint32_t kSmpTimeoutMs = 250;
  static constexpr std::uint32_t kGmpTimeoutMs = 2'000;
  static constexpr std::uint32_t kGmpRetries = 4;

  explicit IbsimClient(const node::UmadPortAccess& access);

  /// A datagram of the program's. False: it is none that libumad2sim sends.
  [[nodiscard]] bool handle(ByteSpan datagram, Instant now);

  /// The next datagram for the program.
  [[nodiscard]] std::optional<IbsimPacket> poll();

  /// The program is a subnet manager, which has the requests of SM and SA; or no more.
  [[nodiscard]] Result<void> set_sm(bool is_sm, Instant now);
  [[nodiscard]] bool is_sm() const { return !sm_agents_.empty(); }
  [[nodiscard]] std::size_t open_requests() const { return open_.size(); }

 private:
  /// The agents that ask, and the low half of the TID, which the node keeps.
  using Key = std::pair<std::uint32_t, std::uint32_t>;

  [[nodiscard]] Result<std::uint32_t> agent_for(bool is_smp);
  [[nodiscard]] Result<void> become_sm(Instant now);
  [[nodiscard]] bool restore_tid(std::uint32_t agent, IbsimPacket& packet);

  node::UmadFile file_;
  std::array<std::optional<std::uint32_t>, 2> asking_;  // on QP0 and QP1
  std::vector<std::uint32_t> sm_agents_;
  std::map<Key, std::uint64_t> open_;  // TIDs as the program has them
};

}  // namespace weft::daemon
