#pragma once

// The text keys of RFC 7143 §13, one row each.

#include <cstdint>
#include <optional>
#include <string_view>

#include "iscsi/parameters.h"

namespace weft::iscsi {

/// How a key comes to its value (RFC 7143 §6.2).
enum class KeyRule : std::uint8_t {
  Declared,   ///< one side says it; nothing is answered
  Smaller,    ///< number: the smaller of both
  Larger,     ///< number: the larger of both
  And,        ///< Boolean
  Or,         ///< Boolean
  Announced,  ///< Boolean that the initiator declares, and a target may refuse (RFC 7145 §5.1.3)
  Digest,     ///< list of None and CRC32C: the first that the answering side accepts
  Reporting,  ///< list of task reporting semantics (RFC 7143 §13.23); RFC3720 is what we have
  Security,   ///< belongs to authentication, in SecurityNegotiation only
  Marker,     ///< obsolete: No (RFC 7143 §13.25)
  Rejected,   ///< obsolete: Reject (RFC 7143 §13.25)
};

/// When a key may be sent (RFC 7143 §13, "Use").
enum class KeyUse : std::uint8_t {
  Leading,      ///< LO: login of the leading connection
  Initialize,   ///< IO: login of any connection
  FullFeature,  ///< FFPO
  Any,          ///< ALL
};

enum class KeySender : std::uint8_t { Initiator, Target, Both };

struct KeyRow {
  std::string_view name;
  KeyRule rule{};
  KeyUse use{};
  KeySender sender{KeySender::Both};
  bool in_discovery{};  ///< means something in a discovery session; else Irrelevant
  std::uint32_t minimum{};
  std::uint32_t maximum{};
  std::uint32_t Parameters::* number{};
  bool Parameters::* flag{};
  std::optional<bool> Parameters::* announced{};
};

/// The row of a key, or nothing for an unknown one, which is answered with NotUnderstood.
[[nodiscard]] const KeyRow* find_key(std::string_view name);

}  // namespace weft::iscsi
