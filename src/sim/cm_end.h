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

/// What an end of a connection belongs to: a program on a host.
struct CmSurroundings {
  cm::ConnectionManager& manager;
  hca::Hca& hca;
  hca::ProtectionDomain& pd;
  CmLedger& ledger;
  CmExchanges& exchanges;
  Verdict& verdict;
  HostLife life{};
};

/// What its user does of its own accord.
struct CmTemper {
  unsigned messages{};
  bool closes{};           ///< once all messages have come and gone; else it waits for the other
  bool closes_abruptly{};  ///< without a DREQ of its own: its identifier is destroyed
  Instant gives_up_at{Instant::never()};  ///< in whatever state
  Duration thinks_for{};                  ///< before it answers
  bool asks_for_time{};                   ///< by an MRA, while it thinks
  bool refuses{};                         ///< instead of its answer
  bool keeps_qp{true};                    ///< until time-wait is over
  unsigned paths{};                       ///< that it asks its peer to load, one after the other
  bool migrates{};                        ///< to the last of them
};

/// One end of a managed connection, and the program that uses it. It reports all to the ledger.
class CmEnd {
 public:
  CmEnd(const CmSurroundings& surroundings, CmLedger::Token token, CmSide side,
        const CmTemper& temper)
      : in_(surroundings), temper_(temper), token_(token), side_(side) {}
  virtual ~CmEnd() = default;
  CmEnd(const CmEnd&) = delete;
  CmEnd& operator=(const CmEnd&) = delete;

  [[nodiscard]] CmLedger::Token token() const { return token_; }
  [[nodiscard]] CmSide side() const { return side_; }
  /// Nothing is left of it but this object.
  [[nodiscard]] virtual bool is_over() const = 0;
  [[nodiscard]] virtual Instant deadline() const = 0;
  /// Its QP may have news, or its time has come.
  virtual void step(Instant now) = 0;
  /// Its QP received something before it was told of the connection.
  virtual void communication_established(Instant now) = 0;
  /// Its QP went over to the alternate path because its peer did.
  virtual void path_migrated(Instant now) = 0;
  /// Its program dies, or its whole host: then nothing is said to anybody.
  virtual void die(bool with_host, Instant now) = 0;
  [[nodiscard]] const CmQp* qp() const { return qp_.get(); }

 protected:
  [[nodiscard]] bool make_qp();

  CmSurroundings in_;
  CmTemper temper_;
  CmLedger::Token token_;
  CmSide side_;
  std::unique_ptr<CmQp> qp_;
};

/// An end that calls the connection manager itself, from either side or as one of two peers.
class CmPlainEnd final : public CmEnd, public cm::CmObserver {
 public:
  using CmEnd::CmEnd;

  struct Target {
    cm::Path path{};
    std::uint64_t service_id{};
    bool peer_to_peer{};
  };
  /// False: there was no QP left.
  [[nodiscard]] bool ask(const Target& target, Instant now);
  /// Takes over the id of a request.
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
    Thinking,   ///< about a REQ or REP
    Answering,  ///< REP sent
    Up,
    Closing,  ///< DREQ sent
    Waiting,  ///< in time-wait
    Over,
  };

  void think(Instant now);
  void answer(Instant now);
  void reply(Instant now);
  void confirm(Instant now);
  [[nodiscard]] bool take_transitions();
  void become_up(Instant now);
  void work(Instant now);
  void look(Instant now);
  [[nodiscard]] bool has_paths_to_load() const;
  void ask_for_path(Instant now);
  void answer_path(Instant now);
  void load_path(Instant now);
  void on_lap(const cm::CmEvent& event, Instant now);
  void on_apr(const cm::CmEvent& event, Instant now);
  void migrate_if_armed(Instant now);
  void close(Instant now);
  void wait(CmEnding ending, Instant now);
  void leave(CmEnding ending, Instant now);
  void on_reject(const cm::RejReceived& reject, Instant now);
  void on_timeout(const cm::CmEvent& event, Instant now);

  Phase phase_{Phase::New};
  cm::CmId id_{};
  Qpn remote_{};
  bool answers_req_{};
  Instant answers_at_{Instant::never()};
  Instant probes_at_{Instant::never()};
  Instant asked_at_{};
  // Alternate paths.
  unsigned paths_asked_{};
  std::uint8_t path_{};        ///< that is asked for; 0: none
  std::uint8_t paths_peer_{};  ///< that the peer asks for
  Instant path_asked_at_{};
  Instant asks_for_path_at_{Instant::never()};
  Instant answers_path_at_{Instant::never()};
  Instant migrates_by_{Instant::never()};  ///< or goes on without
};

}  // namespace weft::sim
