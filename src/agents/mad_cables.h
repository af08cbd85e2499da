#pragma once

// What cables do to MADs that cross them: they count at both ends as other packets do (IBTA vol 1
// §16.1.3.5), meet the rules of faults one by one (docs/ARCHITECTURE.md, decision 8), and are shown
// to captures as they are there, hop by hop. Links with a rate or a delay take their time as of
// other packets; MADs wait for each other there, not for data, and data does not wait for them.
// Pure. One thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "agents/counter_source.h"
#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/serial.h"
#include "base/time.h"
#include "fabric/faults.h"
#include "fabric/path.h"
#include "fabric/tables.h"
#include "mad/agent_table.h"
#include "mad/mad_address.h"

namespace weft::agents {

/// A MAD between two ports, or another datagram of a host's kernel side, which links carry as they
/// do MADs of QP1.
struct MadOnCable {
  mad::InterfaceKind kind{};
  Lid slid;
  Lid dlid;
  Psn psn;
  fabric::PortIndex source;  // that sent it first
  const mad::MadAddress& to;
  ByteSpan bytes;
  Qpn source_qp{kQp1};  // which a MAD of QP0 has not

  [[nodiscard]] Qpn sender() const { return kind == mad::InterfaceKind::Smi ? kQp0 : source_qp; }
};

/// Sees the MADs of ports that have a capture.
class MadTap {
 public:
  MadTap() = default;
  virtual ~MadTap() = default;
  MadTap(const MadTap&) = delete;
  MadTap& operator=(const MadTap&) = delete;

  /// `hop` has no ingress if nothing arrived there.
  virtual void show(const fabric::Hop& hop, const MadOnCable& mad) = 0;
};

/// Each may be absent.
struct CableOptions {
  CounterSource* counters{};       // must outlive who is given it
  fabric::FaultCounters faults{};  // none: rules hit no MAD
};

class MadCables {
 public:
  /// Copies of one MAD that rules may make; further ones are not made (policy).
  static constexpr std::uint32_t kMostCopies = fabric::Fates::kMostCopies;

  /// `tables` must outlive it.
  MadCables(const fabric::TablesBuilder& tables, const CableOptions& options)
      : tables_(tables), counters_(options.counters), faults_(options.faults) {}

  /// What crosses from now on sets out now.
  void set_time(Instant now) { now_ = now; }

  /// Not while a fabric is made: then links take no time.
  void set_takes_time(bool takes) { takes_time_ = takes; }

  /// Must outlive this; none: nobody looks.
  void set_tap(MadTap* tap) { tap_ = tap; }

  struct Crossing {
    std::uint32_t arrived{};  // copies
    Duration held_back;       // the latest of them, and the cable's delay
    Duration on_wire;         // from now on until the link has sent them
  };
  /// `copies` of a MAD, at least one, over a link that carries them.
  [[nodiscard]] Crossing cross(const fabric::Hop& hop, const MadOnCable& mad, std::uint32_t copies);
  /// Counts copies that a port dropped.
  void drop(fabric::PortIndex port, std::uint32_t copies, fabric::PathEnd why);

 private:
  [[nodiscard]] std::span<const fabric::LinkFault> rules_of(fabric::PortIndex egress);
  void count(const fabric::Hop& hop, const MadOnCable& mad, std::uint32_t packets);
  void show(const fabric::Hop& hop, const MadOnCable& mad);
  [[nodiscard]] std::optional<Duration> send_on(fabric::PortIndex egress, std::uint64_t bytes);

  const fabric::TablesBuilder& tables_;
  CounterSource* counters_;
  fabric::FaultCounters faults_;
  MadTap* tap_{};
  Instant now_{};
  bool takes_time_{true};
  std::unordered_map<fabric::PortIndex, Instant> free_at_;  // of links with a rate, by who sends
  // The rules by the port that sends on their links, in their order; made when they are asked for,
  // as of `rules_as_of_`.
  std::unordered_map<fabric::PortIndex, std::vector<fabric::LinkFault>> rules_;
  std::uint64_t rules_as_of_{};
};

}  // namespace weft::agents
