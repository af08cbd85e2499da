#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "cm/rdma/rdma_cm.h"
#include "sim/cm_exchanges.h"
#include "sim/cm_ledger.h"

namespace weft::sim {

/// The randomized behaviour of an RDMA-CM user.
struct RdmaCmBehavior {
  bool closes{};
  bool refuses{};
  bool waits_for_time_wait{};             ///< before it destroys its id
  Duration answer_delay{};                ///< delay before each step
  Instant gives_up_at{Instant::never()};  ///< in any state
};

/// One end of an RDMA-CM connection, active or passive, or of a datagram service lookup (port space
/// UDP, SIDR). Reports to the ledgers. Not thread-safe.
class RdmaCmEnd {
 public:
  struct Environment {
    cm::RdmaCm& manager;
    cm::RdmaCmSink& sink;
    CmLedger& ledger;
    CmExchanges& exchanges;
    Verdict& verdict;
    HostLife life{};
    cm::PortSpace space{cm::PortSpace::Tcp};
  };

  RdmaCmEnd(const Environment& environment, CmLedger::Token token, CmSide side,
            const RdmaCmBehavior& behavior, Qpn qpn)
      : in_(environment), behavior_(behavior), token_(token), side_(side), qpn_(qpn) {}

  void ask(const cm::SocketAddress& address, Instant now);
  /// Takes over the id of an incoming request.
  void take(const cm::RdmaCmEvent& request, Instant now);
  void handle(const cm::RdmaCmEvent& event, Instant now);
  void step(Instant now);
  /// The program ends and its id is destroyed.
  void die(Instant now);

  [[nodiscard]] cm::RdmaCmId id() const { return id_; }
  [[nodiscard]] bool is_over() const { return is_over_; }
  [[nodiscard]] Instant deadline() const {
    return std::min({acts_at_, behavior_.gives_up_at, probes_at_});
  }

 private:
  enum class Step : std::uint8_t { None, ResolveRoute, Connect, Accept, Confirm, Disconnect };

  void plan(Step step, Instant now);
  void act(Instant now);
  [[nodiscard]] bool is_lookup() const { return in_.space == cm::PortSpace::Udp; }
  void take_answer(const cm::RdmaCmEvent& event, Instant now);
  void accept(Instant now);
  void become_up(Instant now);
  void leave(CmTermination termination, Instant now);
  void must(const Result<void>& result, std::string_view call);
  [[nodiscard]] cm::ConnectionParameters parameters() const;

  Environment in_;
  RdmaCmBehavior behavior_;
  CmLedger::Token token_;
  CmSide side_;
  Qpn qpn_;
  Qpn remote_{};
  cm::RdmaCmId id_{};
  Step next_{Step::None};
  Instant acts_at_{Instant::never()};
  Instant probes_at_{Instant::never()};  ///< simulates a QP that sends from time to time
  Instant asked_at_{};
  bool end_was_reported_{};  ///< the end of the connection was reported
  bool has_answered_{};      ///< answered a lookup
  bool is_over_{};
};

}  // namespace weft::sim
