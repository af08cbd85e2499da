#pragma once

// Negotiation of operational keys, for either end (RFC 7143 §6.2, §13). Pure.

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "iscsi/keys.h"
#include "iscsi/parameters.h"
#include "iscsi/text.h"

namespace weft::iscsi {

enum class Role : std::uint8_t { Initiator, Target };

/// Where a pair comes: it decides which keys mean something.
struct NegotiationScene {
  Role role{Role::Target};  ///< of this end
  bool leading{true};       ///< the session's first connection
  bool discovery{};
  bool full_feature{};
};

/// One negotiation: a login phase, or a sequence of Text PDUs.
class Negotiation {
 public:
  /// `agreed` holds until a key says otherwise: the defaults, or a session's values.
  Negotiation(const Preferences& preferences, const Parameters& agreed)
      : preferences_(preferences), agreed_(agreed) {}

  /// Offers a key with this end's preference.
  void offer(std::string_view name, TextWriter& text);
  /// Takes a pair of the peer: an answer to an offer, or an offer, which is answered into
  /// `answers`. InvalidArgument if the peer breaks the rules, which ends the negotiation: a key
  /// twice, an answer that the offer does not allow.
  Result<void> take(const TextPair& pair, const NegotiationScene& scene, TextWriter& answers);
  /// True while an offer has no answer that it needs.
  [[nodiscard]] bool awaits_answers() const { return !awaited().empty(); }
  /// One of these offers; empty if there is none.
  [[nodiscard]] std::string_view awaited() const;
  [[nodiscard]] const Parameters& agreed() const { return agreed_; }

 private:
  [[nodiscard]] Result<void> take_answer(const KeyRow& row, std::string_view value);
  [[nodiscard]] std::string answer(const KeyRow& row, std::string_view value);
  [[nodiscard]] std::string answer_number(const KeyRow& row, std::string_view value);
  [[nodiscard]] std::string answer_flag(const KeyRow& row, std::string_view value);
  [[nodiscard]] std::string answer_digest(const KeyRow& row, std::string_view value);
  [[nodiscard]] std::string answer_announced(const KeyRow& row, std::string_view value);
  [[nodiscard]] Result<void> take_announced_answer(const KeyRow& row, std::string_view value);
  [[nodiscard]] Result<void> take_declaration(const KeyRow& row, std::string_view value);
  [[nodiscard]] bool settles(const KeyRow& row) const;
  [[nodiscard]] DigestPolicy digest_policy(const KeyRow& row) const;

  const Preferences& preferences_;
  Parameters agreed_;
  std::set<std::string, std::less<>> offered_;
  std::map<std::string, std::string, std::less<>> seen_;  // with their values
};

}  // namespace weft::iscsi
