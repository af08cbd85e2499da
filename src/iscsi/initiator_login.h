#pragma once

// The login phase of an initiator (RFC 7143 §6.3, §11.12, §11.13): requests come out, responses go
// in. Pure; one login each.

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "iscsi/chap.h"
#include "iscsi/initiator_options.h"
#include "iscsi/negotiation.h"
#include "iscsi/pdu.h"
#include "wire/iscsi/login.h"

namespace weft::iscsi {

/// What a connection logs in to.
struct LoginPlace {
  std::uint32_t cmd_sn{};  ///< of the session: the first, or the next
  std::uint16_t cid{};
  std::uint16_t tsih{};  ///< of the session that it joins; 0: it begins one
  /// Of the connection before with this CID, which the login restarts (RFC 7143 §11.12.9).
  std::uint32_t exp_stat_sn{};
  Parameters session{};  ///< what that has agreed on
};

class InitiatorLogin {
 public:
  /// `options` and `library` must outlive it.
  InitiatorLogin(const InitiatorOptions& options, ChapLibrary& library, const LoginPlace& place);

  /// The first request.
  [[nodiscard]] OutgoingPdu begin();
  /// Takes a response: the next request, or nothing when login is over, by is_done() or moved_to().
  /// PermissionDenied for authentication that failed, on either side; Refused, NotFound or TryAgain
  /// as the target says; InvalidArgument if it breaks the rules.
  [[nodiscard]] Result<std::optional<OutgoingPdu>> take(const ReceivedPdu& pdu);

  [[nodiscard]] bool is_done() const { return done_; }
  /// Whether it is to a session that there is.
  [[nodiscard]] bool joins() const { return !is_leading(); }
  [[nodiscard]] const Parameters& agreed() const { return negotiation_.agreed(); }
  [[nodiscard]] std::uint16_t tsih() const { return tsih_; }
  [[nodiscard]] std::uint32_t exp_stat_sn() const { return exp_stat_sn_; }
  [[nodiscard]] const wire::iscsi::LoginResponse& last_response() const { return last_; }
  /// HOST:PORT that the target redirects to (RFC 7143 §11.13.5, status class 1); empty: it does
  /// not.
  [[nodiscard]] const std::string& moved_to() const { return moved_to_; }

 private:
  static constexpr unsigned kMaxExchanges = 32;  // policy

  [[nodiscard]] OutgoingPdu request(bool transit);
  void offer_operational();
  [[nodiscard]] Result<void> check_end() const;
  [[nodiscard]] Result<void> take_security(const TextPairs& pairs, bool transit);
  [[nodiscard]] Result<void> take_operational(const TextPairs& pairs);
  [[nodiscard]] Result<void> take_failure(const wire::iscsi::LoginResponse& response);
  [[nodiscard]] bool is_secure() const { return !chap_ || chap_->is_done(); }
  [[nodiscard]] bool is_leading() const { return place_.tsih == 0; }

  const InitiatorOptions& options_;
  ChapLibrary& library_;
  LoginPlace place_;
  wire::iscsi::LoginStage stage_{};
  Negotiation negotiation_;
  std::optional<ChapInitiator> chap_;
  bool method_chosen_{};
  TextWriter text_;       // of the next request
  std::string received_;  // of a response so far
  wire::iscsi::LoginResponse last_;
  std::uint32_t exp_stat_sn_{};
  std::uint16_t tsih_{};
  std::string moved_to_;
  unsigned exchanges_{};
  bool done_{};
};

}  // namespace weft::iscsi
