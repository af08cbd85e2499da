#pragma once

#include "cm/cmrc.h"
#include "sim/cm_end.h"

namespace weft::sim {

/// An end that uses a CmReliableConnection (R-CMRC-1 to R-CMRC-6) on the QP of an engine.
class CmrcEnd final : public CmEnd, private cm::CmrcUser, private cm::CmrcQp {
 public:
  CmrcEnd(const CmEnvironment& environment, CmLedger::Token token, CmSide side,
          const CmBehavior& behavior)
      : CmEnd(environment, token, side, behavior), connection_(environment.manager, *this, *this) {}

  /// Opens a connection. Returns false if no QP was available.
  [[nodiscard]] bool ask(const cm::Path& path, std::uint64_t service_id, Instant now);
  [[nodiscard]] cm::Handled take(cm::CmId id, const cm::CmEvent& request, Instant now);

  [[nodiscard]] bool is_over() const override { return is_over_; }
  [[nodiscard]] Instant deadline() const override;
  void step(Instant now) override;
  void communication_established(Instant /*now*/) override {}  // it notices by polling its QP
  void path_migrated(Instant /*now*/) override {}
  void die(bool with_host, Instant now) override;

 private:
  // CmrcUser
  void handle_datagram(ByteSpan datagram, Instant now) override;
  void handle_connected(Instant now) override;
  void handle_closed(const Error& why, Instant now) override;
  // CmrcQp
  [[nodiscard]] Qpn number() const override { return qp_->number(); }
  [[nodiscard]] Psn starting_psn() const override { return qp_->starting_psn(); }
  [[nodiscard]] std::size_t max_message_bytes() const override { return CmLedger::kMaxBytes; }
  [[nodiscard]] Result<void> modify(const verbs::QpModification& attributes) override {
    return qp_->modify(attributes);
  }
  [[nodiscard]] Result<void> send(ByteSpan datagram) override { return qp_->send(datagram); }

  void work(Instant now);
  void leave(CmTermination termination, Instant now);

  cm::CmReliableConnection connection_;
  Qpn remote_{};
  bool has_first_{};  ///< the peer's first datagram arrived
  bool is_up_{};
  bool is_over_{};
  Instant asked_at_{};
  Instant answers_at_{Instant::never()};
  Instant probes_at_{Instant::never()};
};

}  // namespace weft::sim
