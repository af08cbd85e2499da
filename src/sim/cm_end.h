#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/random.h"
#include "base/time.h"
#include "cm/connection_manager.h"
#include "hca/hca.h"
#include "sim/cm_exchanges.h"
#include "sim/cm_ledger.h"
#include "sim/cm_qp.h"

namespace weft::sim {

/// The environment of an end: a program on a host.
struct CmEnvironment {
  cm::ConnectionManager& manager;
  hca::Hca& hca;
  hca::ProtectionDomain& pd;
  CmLedger& ledger;
  CmExchanges& exchanges;
  Verdict& verdict;
  HostLife life{};
};

/// The randomized behaviour of an end's user.
struct CmBehavior {
  unsigned messages{};
  /// closes when all messages are exchanged; otherwise it waits for the peer to close
  bool closes{};
  bool closes_abruptly{};                 ///< destroys its identifier instead of sending a DREQ
  Instant gives_up_at{Instant::never()};  ///< in any state
  Duration answer_delay{};                ///< delay before answering
  bool sends_mra{};                       ///< sends an MRA during the delay
  bool refuses{};                         ///< rejects instead of answering
  bool keeps_qp{true};                    ///< until the end of TimeWait
  unsigned paths{};                       ///< alternate paths that it loads, one after another
  bool migrates{};                        ///< migrates to the last of them
};

/// One end of a managed connection together with its user program. Reports all events to the
/// ledger. Not thread-safe.
class CmEnd {
 public:
  CmEnd(const CmEnvironment& environment, CmLedger::Token token, CmSide side,
        const CmBehavior& behavior)
      : in_(environment), behavior_(behavior), token_(token), side_(side) {}
  virtual ~CmEnd() = default;
  CmEnd(const CmEnd&) = delete;
  CmEnd& operator=(const CmEnd&) = delete;

  [[nodiscard]] CmLedger::Token token() const { return token_; }
  [[nodiscard]] CmSide side() const { return side_; }
  /// The end has finished and can be deleted.
  [[nodiscard]] virtual bool is_over() const = 0;
  [[nodiscard]] virtual Instant deadline() const = 0;
  /// Polls the QP and performs actions that are due.
  virtual void step(Instant now) = 0;
  /// The QP received a packet before the connection was established.
  virtual void communication_established(Instant now) = 0;
  /// The QP migrated to the alternate path because the peer did.
  virtual void path_migrated(Instant now) = 0;
  /// The program dies, or the whole host; in the latter case nothing is sent.
  virtual void die(bool with_host, Instant now) = 0;
  [[nodiscard]] const CmQp* qp() const { return qp_.get(); }

 protected:
  [[nodiscard]] bool make_qp();

  CmEnvironment in_;
  CmBehavior behavior_;
  CmLedger::Token token_;
  CmSide side_;
  std::unique_ptr<CmQp> qp_;
};

/// An end that uses the connection manager directly, as client, server or peer-to-peer.
class CmDirectEnd final : public CmEnd, public cm::CmObserver {
 public:
  using CmEnd::CmEnd;

  struct Target {
    cm::Path path{};
    std::uint64_t service_id{};
    bool peer_to_peer{};
  };
  /// Sends a REQ. Returns false if no QP was available.
  [[nodiscard]] bool ask(const Target& target, Instant now);
  /// Takes over the id of an incoming request.
  [[nodiscard]] cm::Handled take(cm::CmId id, const cm::CmEvent& request, Instant now);
  [[nodiscard]] cm::Handled handle(cm::CmId id, const cm::CmEvent& event, Instant now) override;

  [[nodiscard]] bool is_over() const override { return phase_ == Phase::Over; }
  [[nodiscard]] Instant deadline() const override;
  void step(Instant now) override;
  void communication_established(Instant now) override;
  void path_migrated(Instant now) override;
  void die(bool with_host, Instant now) override;

 private:
  enum class Phase : std::uint8_t {
    New,
    Asking,     ///< REQ sent
    Delaying,   ///< delaying the answer to a REQ or REP
    Answering,  ///< REP sent
    Up,
    Closing,  ///< DREQ sent
    Waiting,  ///< in TimeWait
    Over,
  };

  void start_delay(Instant now);
  void answer(Instant now);
  void reply(Instant now);
  void confirm(Instant now);
  [[nodiscard]] bool take_transitions();
  void become_up(Instant now);
  void work(Instant now);
  void look(Instant now);
  [[nodiscard]] bool has_paths_to_load() const;
  void start_path_query(Instant now);
  void answer_path(Instant now);
  void load_path(Instant now);
  void on_lap(const cm::CmEvent& event, Instant now);
  void on_apr(const cm::CmEvent& event, Instant now);
  void migrate_if_armed(Instant now);
  void close(Instant now);
  void wait(CmTermination termination, Instant now);
  void leave(CmTermination termination, Instant now);
  void on_reject(const cm::RejReceived& reject, Instant now);
  void on_timeout(const cm::CmEvent& event, Instant now);

  Phase phase_{Phase::New};
  cm::CmId id_{};
  Qpn remote_{};
  bool answers_req_{};
  Instant answers_at_{Instant::never()};
  Instant probes_at_{Instant::never()};
  Instant asked_at_{};
  // Alternate paths:
  unsigned paths_requested_{};
  std::uint8_t path_{};        ///< requested from the peer; 0: none
  std::uint8_t paths_peer_{};  ///< requested by the peer
  Instant path_requested_at_{};
  Instant asks_for_path_at_{Instant::never()};
  Instant answers_path_at_{Instant::never()};
  Instant migrates_by_{Instant::never()};  ///< or continues without migration
};

}  // namespace weft::sim
