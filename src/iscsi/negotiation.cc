#include "iscsi/negotiation.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "base/assert.h"

namespace weft::iscsi {
namespace {

constexpr std::string_view kReject = "Reject";
constexpr std::string_view kIrrelevant = "Irrelevant";
constexpr std::string_view kNotUnderstood = "NotUnderstood";

[[nodiscard]] std::optional<bool> parse_flag(std::string_view value) {
  if (value == "Yes") {
    return true;
  }
  return value == "No" ? std::optional{false} : std::nullopt;
}

[[nodiscard]] std::string flag_text(bool value) { return value ? "Yes" : "No"; }

[[nodiscard]] std::optional<std::uint32_t> parse_in_range(const KeyRow& row,
                                                          std::string_view value) {
  const auto number = parse_number(value);
  if (!number || *number < row.minimum || *number > row.maximum) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(*number);
}

std::unexpected<Error> illegal_answer(const KeyRow& row, std::string_view value) {
  return fail(ErrorCode::InvalidArgument, "{}={} is no answer to what was offered", row.name,
              value);
}

[[nodiscard]] std::string_view digests_of(DigestPolicy policy) {
  switch (policy) {
    case DigestPolicy::Either:
      return "None,CRC32C";
    case DigestPolicy::Never:
      return "None";
    case DigestPolicy::Always:
      return "CRC32C";
  }
  return {};
}

[[nodiscard]] bool accepts(DigestPolicy policy, std::string_view digest) {
  return std::ranges::count(split_list(digests_of(policy)), digest) != 0;
}

// RFC 7143 §13: who may send a key, and when.
[[nodiscard]] bool may_come(const KeyRow& row, const NegotiationScene& scene) {
  const KeySender own = scene.role == Role::Target ? KeySender::Target : KeySender::Initiator;
  if (row.sender == own) {
    return false;
  }
  switch (row.use) {
    case KeyUse::Leading:
      return scene.leading && !scene.full_feature;
    case KeyUse::Initialize:
      return !scene.full_feature;
    case KeyUse::FullFeature:
      return scene.full_feature;
    case KeyUse::Any:
      return true;
  }
  return false;
}

}  // namespace

DigestPolicy Negotiation::digest_policy(const KeyRow& row) const {
  return row.flag == &Parameters::header_digest ? preferences_.header_digest
                                                : preferences_.data_digest;
}

// RFC 7143 §6.2.2: AND with No and OR with Yes have their outcome by the offer alone, so that the
// answer is optional; Linux's target leaves it out. A declaration needs none either.
bool Negotiation::settles(const KeyRow& row) const {
  if (row.announced != nullptr) {
    return true;
  }
  return row.flag != nullptr && ((row.rule == KeyRule::And && !(preferences_.values.*row.flag)) ||
                                 (row.rule == KeyRule::Or && preferences_.values.*row.flag));
}

std::string_view Negotiation::awaited() const {
  const auto found = std::ranges::find_if(
      offered_, [&](const std::string& name) { return !settles(*find_key(name)); });
  return found == offered_.end() ? std::string_view{} : std::string_view{*found};
}

void Negotiation::offer(std::string_view name, TextWriter& text) {
  const KeyRow* const row = find_key(name);
  WEFT_ASSERT(row != nullptr, "offers are of keys of the table");
  if (row->rule == KeyRule::Digest) {
    text.add(name, digests_of(digest_policy(*row)));
  } else if (row->number != nullptr) {
    text.add(name, fmt::format("{}", preferences_.values.*row->number));
  } else if (row->announced != nullptr) {
    const std::optional<bool> declared = preferences_.values.*row->announced;
    WEFT_ASSERT(declared.has_value(), "what is declared is Yes or No");
    text.add(name, flag_text(*declared));
    agreed_.*row->announced = declared;  // unless the target refuses it
  } else {
    WEFT_ASSERT(row->flag != nullptr, "a key with text for its value is added by its owner");
    text.add(name, flag_text(preferences_.values.*row->flag));
    if (settles(*row)) {
      agreed_.*row->flag = preferences_.values.*row->flag;
    }
  }
  if (row->rule != KeyRule::Declared) {
    offered_.emplace(name);
  }
}

Result<void> Negotiation::take(const TextPair& pair, const NegotiationScene& scene,
                               TextWriter& answers) {
  if (const auto [seen, is_new] = seen_.emplace(pair.key, pair.value); !is_new) {
    // RFC 7143 §6.3 forbids it; Debian's tgt says over iSER what it said before once more.
    if (scene.role == Role::Initiator && seen->second == pair.value) {
      return {};
    }
    return fail(ErrorCode::InvalidArgument, "{} comes a second time", pair.key);
  }
  const KeyRow* const row = find_key(pair.key);
  if (const auto offered = offered_.find(pair.key); offered != offered_.end()) {
    offered_.erase(offered);
    return take_answer(*row, pair.value);
  }
  if (pair.value == kReject || pair.value == kIrrelevant || pair.value == kNotUnderstood) {
    return fail(ErrorCode::InvalidArgument, "{}={} answers no offer", pair.key, pair.value);
  }
  // Numbers of a target alone are those of iSER's PDUs (RFC 7145 §6.4, §6.5). As a target we leave
  // them to MaxRecvDataSegmentLength: libiscsi waits for ever once they are answered.
  const bool is_left_out = row != nullptr && scene.role == Role::Target &&
                           row->rule == KeyRule::Smaller && row->sender == KeySender::Target;
  if (row == nullptr || is_left_out) {
    answers.add(pair.key, kNotUnderstood);
    return {};
  }
  if (row->rule == KeyRule::Security) {
    return fail(ErrorCode::InvalidArgument, "{} belongs to the SecurityNegotiation stage",
                pair.key);
  }
  if (!may_come(*row, scene)) {
    answers.add(pair.key, kReject);
    return {};
  }
  if (row->rule == KeyRule::Declared) {
    return take_declaration(*row, pair.value);
  }
  answers.add(pair.key, scene.discovery && !row->in_discovery ? std::string{kIrrelevant}
                                                              : answer(*row, pair.value));
  return {};
}

Result<void> Negotiation::take_declaration(const KeyRow& row, std::string_view value) {
  if (row.number == nullptr) {
    return {};
  }
  const auto number = parse_in_range(row, value);
  if (!number) {
    return fail(ErrorCode::InvalidArgument, "{}={} is not in {}..{}", row.name, value, row.minimum,
                row.maximum);
  }
  agreed_.*row.number = *number;
  return {};
}

std::string Negotiation::answer(const KeyRow& row, std::string_view value) {
  switch (row.rule) {
    case KeyRule::Smaller:
    case KeyRule::Larger:
      return answer_number(row, value);
    case KeyRule::And:
    case KeyRule::Or:
      return answer_flag(row, value);
    case KeyRule::Digest:
      return answer_digest(row, value);
    case KeyRule::Announced:
      return answer_announced(row, value);
    case KeyRule::Reporting:
      return std::ranges::count(split_list(value), std::string_view{"RFC3720"}) != 0
                 ? "RFC3720"
                 : std::string{kReject};
    case KeyRule::Marker:
      return flag_text(false);
    case KeyRule::Declared:
    case KeyRule::Security:
    case KeyRule::Rejected:
      break;
  }
  return std::string{kReject};
}

std::string Negotiation::answer_number(const KeyRow& row, std::string_view value) {
  const auto theirs = parse_in_range(row, value);
  if (!theirs) {
    return std::string{kReject};
  }
  const std::uint32_t ours = preferences_.values.*row.number;
  const std::uint32_t result =
      row.rule == KeyRule::Smaller ? std::min(ours, *theirs) : std::max(ours, *theirs);
  agreed_.*row.number = result;
  return fmt::format("{}", result);
}

std::string Negotiation::answer_flag(const KeyRow& row, std::string_view value) {
  const auto theirs = parse_flag(value);
  if (!theirs) {
    return std::string{kReject};
  }
  const bool ours = preferences_.values.*row.flag;
  const bool result = row.rule == KeyRule::And ? ours && *theirs : ours || *theirs;
  agreed_.*row.flag = result;
  return flag_text(result);
}

// RFC 7145 §6.10 calls the key declarative, and §5.1.3 lets the initiator learn by its answer
// whether the target speaks Hello: it is answered, and nobody waits for the answer.
std::string Negotiation::answer_announced(const KeyRow& row, std::string_view value) {
  if (!preferences_.values.rdma_extensions) {
    return std::string{kIrrelevant};
  }
  const auto theirs = parse_flag(value);
  if (!theirs) {
    return std::string{kReject};
  }
  const bool result = *theirs && (preferences_.values.*row.announced).value_or(false);
  agreed_.*row.announced = result;
  return flag_text(result);
}

// RFC 7145 §5.1.3: who does not know the key may do without what it asks for.
Result<void> Negotiation::take_announced_answer(const KeyRow& row, std::string_view value) {
  const auto flag = parse_flag(value);
  const bool is_refusal = value == kNotUnderstood || value == kIrrelevant || value == kReject;
  const bool declared = (preferences_.values.*row.announced).value_or(false);
  if ((!flag && !is_refusal) || (flag.value_or(false) && !declared)) {
    return illegal_answer(row, value);
  }
  agreed_.*row.announced = flag.value_or(false);
  return {};
}

std::string Negotiation::answer_digest(const KeyRow& row, std::string_view value) {
  for (const std::string_view digest : split_list(value)) {
    if (accepts(digest_policy(row), digest)) {
      agreed_.*row.flag = digest == "CRC32C";
      return std::string{digest};
    }
  }
  return std::string{kReject};
}

Result<void> Negotiation::take_answer(const KeyRow& row, std::string_view value) {
  if (row.announced != nullptr) {
    return take_announced_answer(row, value);
  }
  if (value == kIrrelevant || value == kNotUnderstood) {
    return {};  // the default holds
  }
  if (row.number != nullptr) {
    const auto number = parse_in_range(row, value);
    const std::uint32_t ours = preferences_.values.*row.number;
    if (!number || (row.rule == KeyRule::Smaller ? *number > ours : *number < ours)) {
      return illegal_answer(row, value);
    }
    agreed_.*row.number = *number;
    return {};
  }
  if (row.rule == KeyRule::Digest) {
    if (!accepts(digest_policy(row), value)) {
      return illegal_answer(row, value);
    }
    agreed_.*row.flag = value == "CRC32C";
    return {};
  }
  const auto flag = parse_flag(value);
  if (!flag || row.flag == nullptr) {
    return illegal_answer(row, value);
  }
  const bool ours = preferences_.values.*row.flag;
  if (row.rule == KeyRule::And ? *flag && !ours : !*flag && ours) {
    return illegal_answer(row, value);
  }
  agreed_.*row.flag = *flag;
  return {};
}

}  // namespace weft::iscsi
