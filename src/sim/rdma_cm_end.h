#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "cm/rdma/rdma_cm.h"
#include "sim/cm_exchanges.h"
#include "sim/cm_ledger.h"

namespace weft::sim {

/// What a user of RDMA-CM does of its own accord.
struct RdmaCmTemper {
  bool closes{};
  bool refuses{};
  bool waits_for_time_wait{};             ///< before it destroys its id
  Duration thinks_for{};                  ///< before each step
  Instant gives_up_at{Instant::never()};  ///< in whatever state
};

/// One end of a connection that RDMA-CM makes, from either side, or of a lookup of a datagram
/// service (port space UDP, SIDR); reports to the ledgers. One thread.
class RdmaCmEnd {
 public:
  struct Surroundings {
    cm::RdmaCm& manager;
    cm::RdmaCmSink& sink;
    CmLedger& ledger;
    CmExchanges& exchanges;
    Verdict& verdict;
    HostLife life{};
    cm::PortSpace space{cm::PortSpace::Tcp};
  };

  RdmaCmEnd(const Surroundings& surroundings, CmLedger::Token token, CmSide side,
            const RdmaCmTemper& temper, Qpn qpn)
      : in_(surroundings), temper_(temper), token_(token), side_(side), qpn_(qpn) {}

  void ask(const cm::SocketAddress& address, Instant now);
  /// Takes over the id of a request.
  void take(const cm::RdmaCmEvent& request, Instant now);
  void handle(const cm::RdmaCmEvent& event, Instant now);
  void step(Instant now);
  /// Its program ends: what it leaves is destroyed.
  void die(Instant now);

  [[nodiscard]] cm::RdmaCmId id() const { return id_; }
  [[nodiscard]] bool is_over() const { return is_over_; }
  [[nodiscard]] Instant deadline() const {
    return std::min({acts_at_, temper_.gives_up_at, probes_at_});
  }

 private:
  enum class Step : std::uint8_t { None, ResolveRoute, Connect, Accept, Confirm, Disconnect };

  void plan(Step step, Instant now);
  void act(Instant now);
  [[nodiscard]] bool is_lookup() const { return in_.space == cm::PortSpace::Udp; }
  void take_answer(const cm::RdmaCmEvent& event, Instant now);
  void accept(Instant now);
  void become_up(Instant now);
  void leave(CmEnding ending, Instant now);
  void must(const Result<void>& result, std::string_view call);
  [[nodiscard]] cm::ConnectionParameters parameters() const;

  Surroundings in_;
  RdmaCmTemper temper_;
  CmLedger::Token token_;
  CmSide side_;
  Qpn qpn_;
  Qpn remote_{};
  cm::RdmaCmId id_{};
  Step next_{Step::None};
  Instant acts_at_{Instant::never()};
  Instant probes_at_{Instant::never()};  ///< as a QP does that sends now and then
  Instant asked_at_{};
  bool was_told_{};      ///< of the end
  bool has_answered_{};  ///< of a lookup
  bool is_over_{};
};

}  // namespace weft::sim
