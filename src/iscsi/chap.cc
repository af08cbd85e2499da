#include "iscsi/chap.h"

#include <algorithm>
#include <array>

namespace weft::iscsi {
namespace {

constexpr std::size_t kMinSecretBytes = 12;  // RFC 7143 §9.2.1: 96 bits
constexpr std::size_t kChallengeBytes = 32;  // policy: the longest hash

/// Hash of identifier, secret and challenge (RFC 1994 §4.1).
[[nodiscard]] std::vector<std::byte> response_of(ChapLibrary& library, ChapAlgorithm algorithm,
                                                 std::uint8_t identifier, std::string_view secret,
                                                 ByteSpan challenge) {
  const std::array id{static_cast<std::byte>(identifier)};
  const std::vector<std::byte> key = to_octets(secret);
  const std::array<ByteSpan, 3> pieces{id, key, challenge};
  return library.hash(algorithm, pieces);
}

/// Takes as long whatever differs.
[[nodiscard]] bool are_equal(ByteSpan a, ByteSpan b) {
  std::byte difference{a.size() == b.size() ? std::byte{0} : std::byte{1}};
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference |= a[i] ^ b[i];
  }
  return difference == std::byte{0};
}

[[nodiscard]] std::unexpected<Error> lacks(std::string_view key) {
  return fail(ErrorCode::InvalidArgument, "{} is missing, or no value of it", key);
}

[[nodiscard]] Result<std::vector<std::byte>> binary(const TextPairs& pairs, std::string_view key) {
  const auto value = find_value(pairs, key);
  return value ? parse_binary(*value, kMaxChapBytes) : lacks(key);
}

[[nodiscard]] Result<std::uint8_t> identifier(const TextPairs& pairs) {
  const auto value = find_value(pairs, "CHAP_I");
  const auto number = value ? parse_number(*value) : std::nullopt;
  if (!number || *number > 255) {
    return lacks("CHAP_I");
  }
  return static_cast<std::uint8_t>(*number);
}

[[nodiscard]] const ChapAccount* find_account(const ChapPolicy& policy, std::string_view name) {
  const auto found = std::ranges::find(policy.peers, name, &ChapAccount::name);
  return found == policy.peers.end() ? nullptr : &*found;
}

void add_challenge(ChapLibrary& library, TextWriter& text, std::uint8_t& identifier,
                   std::vector<std::byte>& challenge) {
  std::array<std::byte, 1> id{};
  library.fill_random(id);
  identifier = std::to_integer<std::uint8_t>(id[0]);
  challenge.resize(kChallengeBytes);
  library.fill_random(challenge);
  text.add("CHAP_I", fmt::format("{}", identifier)).add("CHAP_C", to_binary_value(challenge));
}

}  // namespace

Result<void> check_chap_policy(const ChapPolicy& policy) {
  for (const ChapAccount& account : policy.peers) {
    if (account.secret.size() < kMinSecretBytes) {
      return fail(ErrorCode::InvalidArgument,
                  "the CHAP secret of {} is shorter than {} octets (RFC 7143 §9.2.1)", account.name,
                  kMinSecretBytes);
    }
    if (policy.own && policy.own->secret == account.secret) {
      return fail(ErrorCode::InvalidArgument,
                  "{} and {} have the same CHAP secret, which lets each be taken for the other "
                  "(RFC 7143 §9.2.1)",
                  account.name, policy.own->name);
    }
  }
  if (policy.own && policy.own->secret.size() < kMinSecretBytes) {
    return fail(ErrorCode::InvalidArgument,
                "the CHAP secret of {} is shorter than {} octets (RFC 7143 §9.2.1)",
                policy.own->name, kMinSecretBytes);
  }
  return {};
}

Result<void> ChapTarget::take(const TextPairs& pairs, TextWriter& answers) {
  switch (state_) {
    case State::Start:
      return choose(pairs, answers);
    case State::Challenged:
      return verify(pairs, answers);
    case State::Done:
      break;
  }
  return fail(ErrorCode::InvalidArgument, "CHAP is over");
}

Result<void> ChapTarget::choose(const TextPairs& pairs, TextWriter& answers) {
  const auto offered = find_value(pairs, "CHAP_A");
  if (!offered) {
    return lacks("CHAP_A");
  }
  for (const std::string_view text : split_list(*offered)) {
    const auto number = parse_number(text);
    const auto chosen = std::ranges::find_if(policy_.algorithms, [&](ChapAlgorithm algorithm) {
      return number == static_cast<std::uint64_t>(algorithm) &&
             !library_.hash(algorithm, {}).empty();
    });
    if (chosen != policy_.algorithms.end()) {
      algorithm_ = *chosen;
      answers.add("CHAP_A", fmt::format("{}", static_cast<unsigned>(algorithm_)));
      add_challenge(library_, answers, identifier_, challenge_);
      state_ = State::Challenged;
      return {};
    }
  }
  return fail(ErrorCode::PermissionDenied, "no algorithm of CHAP_A={} is accepted", *offered);
}

Result<void> ChapTarget::verify(const TextPairs& pairs, TextWriter& answers) {
  const auto name = find_value(pairs, "CHAP_N");
  if (!name) {
    return lacks("CHAP_N");
  }
  const auto response = binary(pairs, "CHAP_R");
  if (!response) {
    return std::unexpected(response.error());
  }
  const ChapAccount* const account = find_account(policy_, *name);
  // An unknown name takes as long as a known one, and gets the same answer.
  const auto expected =
      response_of(library_, algorithm_, identifier_,
                  account != nullptr ? std::string_view{account->secret} : "", challenge_);
  if (!are_equal(*response, expected) || account == nullptr) {
    return fail(ErrorCode::PermissionDenied, "CHAP: the response of {} is not the secret's", *name);
  }
  name_ = *name;
  state_ = State::Done;
  return find_value(pairs, "CHAP_C") ? respond(pairs, answers) : Result<void>{};
}

Result<void> ChapTarget::respond(const TextPairs& pairs, TextWriter& answers) {
  const auto challenge = binary(pairs, "CHAP_C");
  const auto id = identifier(pairs);
  if (!challenge || !id) {
    return std::unexpected(challenge ? id.error() : challenge.error());
  }
  if (!policy_.own) {
    return fail(ErrorCode::PermissionDenied, "this target has no account to prove itself by");
  }
  if (are_equal(*challenge, challenge_)) {  // RFC 7143 §9.2.1: reflection
    return fail(ErrorCode::PermissionDenied, "the initiator's challenge is this target's own");
  }
  answers.add("CHAP_N", policy_.own->name)
      .add("CHAP_R", to_binary_value(
                         response_of(library_, algorithm_, *id, policy_.own->secret, *challenge)));
  return {};
}

void ChapInitiator::start(TextWriter& text) {
  std::string list;
  for (const ChapAlgorithm algorithm : policy_.algorithms) {
    if (!library_.hash(algorithm, {}).empty()) {
      list += fmt::format("{}{}", list.empty() ? "" : ",", static_cast<unsigned>(algorithm));
    }
  }
  text.add("CHAP_A", list);
}

Result<void> ChapInitiator::take(const TextPairs& pairs, TextWriter& answers) {
  switch (state_) {
    case State::Offered:
      return respond(pairs, answers);
    case State::Responded:
      return verify(pairs);
    case State::Done:
      break;
  }
  return fail(ErrorCode::InvalidArgument, "CHAP is over");
}

Result<void> ChapInitiator::respond(const TextPairs& pairs, TextWriter& answers) {
  const auto chosen = find_value(pairs, "CHAP_A");
  const auto number = chosen ? parse_number(*chosen) : std::nullopt;
  const auto offered = std::ranges::find_if(policy_.algorithms, [&](ChapAlgorithm algorithm) {
    return number == static_cast<std::uint64_t>(algorithm) && !library_.hash(algorithm, {}).empty();
  });
  if (offered == policy_.algorithms.end()) {
    return lacks("CHAP_A");
  }
  algorithm_ = *offered;
  const auto id = identifier(pairs);
  const auto challenge = binary(pairs, "CHAP_C");
  if (!id || !challenge) {
    return std::unexpected(id ? challenge.error() : id.error());
  }
  if (!policy_.own) {
    return fail(ErrorCode::PermissionDenied, "the target wants CHAP, and there is no account");
  }
  const auto response = response_of(library_, algorithm_, *id, policy_.own->secret, *challenge);
  answers.add("CHAP_N", policy_.own->name).add("CHAP_R", to_binary_value(response));
  if (!policy_.is_required()) {
    state_ = State::Done;
    return {};
  }
  add_challenge(library_, answers, identifier_, challenge_);
  state_ = State::Responded;
  return {};
}

Result<void> ChapInitiator::verify(const TextPairs& pairs) {
  const auto name = find_value(pairs, "CHAP_N");
  const auto response = binary(pairs, "CHAP_R");
  const ChapAccount* const account = name ? find_account(policy_, *name) : nullptr;
  if (account == nullptr || !response ||
      !are_equal(*response,
                 response_of(library_, algorithm_, identifier_, account->secret, challenge_))) {
    return fail(ErrorCode::PermissionDenied, "the target has not proven that it has the secret");
  }
  state_ = State::Done;
  return {};
}

}  // namespace weft::iscsi
