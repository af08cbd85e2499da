#pragma once

// What the network asks of the nodes that it carries MADs to: the agents behind their QP0 and QP1,
// and the SMI's rule of where a directed route SMP goes next (IBTA vol 1 §14.2.2). `agents` is what
// answers. One thread.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/identifiers.h"
#include "base/time.h"
#include "fabric/tables.h"
#include "mad/agent_table.h"
#include "mad/mad_address.h"
#include "wire/mad/smp.h"

namespace weft::carriage {

/// What became of a MAD that reached a node.
enum class Outcome : std::uint8_t {
  Answered,    // the MAD is the answer now
  Consumed,    // and not answered
  Discarded,   // not answered since it may not be: a wrong key
  NotHandled,  // for who else is behind the QP
};

/// A packet whose P_Key or Q_Key was wrong (traps 257 and 258).
struct BadKey {
  Lid source{};
  Lid destination{};
  ServiceLevel sl{};
  Qpn source_qp{};
  Qpn destination_qp{};
  Gid source_gid{};
  std::uint32_t key{};
};

/// A trap that is due.
struct PendingTrap {
  fabric::PortIndex port;
  mad::MadBytes mad{};
};

/// How a directed route SMP came to a node: it starts there (or ends its first LID routed part), it
/// came over a cable, or it ended its last LID routed part.
enum class SmiPhase : std::uint8_t { Start, Wire, AfterLidRoute };

/// A directed route SMP under way, its header unpacked.
struct DirectedSmp {
  mad::MadBytes& mad;
  wire::SmpDirectedHeader header{};
  wire::SmpRoute route{};
  fabric::PortIndex at{fabric::kNoPort};  // an HCA's port, or that of a switch that it came in by
  SmiPhase phase{SmiPhase::Start};
};

/// Where it goes from a node.
struct SmiStep {
  enum class Kind : std::uint8_t { Out, ByLid, Arrived, Refused };
  Kind kind{Kind::Refused};
  fabric::PortIndex egress{fabric::kNoPort};
  Lid dlid{};
};

class NodeAgents {
 public:
  NodeAgents() = default;
  virtual ~NodeAgents() = default;
  NodeAgents(const NodeAgents&) = delete;
  NodeAgents& operator=(const NodeAgents&) = delete;

  /// Any MAD that arrived at QP0 or QP1 of a port; an answer takes its place.
  [[nodiscard]] virtual Outcome handle(fabric::PortIndex at, mad::InterfaceKind kind,
                                       mad::MadBytes& mad, Instant now) = 0;
  /// After the answer to a MAD has left.
  virtual void finish_sets(Instant now) = 0;

  /// The rule of the SMI at `smp.at`; moves the hop pointer and notes the way back.
  [[nodiscard]] virtual SmiStep next_step(DirectedSmp& smp) const = 0;

  virtual void report_bad_pkey(fabric::PortIndex port, const BadKey& bad, Instant now) = 0;
  virtual void report_bad_qkey(fabric::PortIndex port, const BadKey& bad, Instant now) = 0;

  [[nodiscard]] virtual std::optional<PendingTrap> poll_trap(Instant now) = 0;
  virtual void handle_timeout(Instant now) = 0;
  [[nodiscard]] virtual Instant deadline() const = 0;
};

}  // namespace weft::carriage
