#pragma once

// CHAP, one way and mutual, for either end (RFC 7143 §12.1.3, RFC 1994). Pure: hashes and random
// octets come from a library behind an interface.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "iscsi/text.h"

namespace weft::iscsi {

/// Values of CHAP_A: MD5 by RFC 1994, the others as IANA has registered them.
enum class ChapAlgorithm : std::uint8_t { Md5 = 5, Sha1 = 6, Sha256 = 7, Sha3With256 = 8 };

/// What a cryptographic library does for CHAP.
class ChapLibrary {
 public:
  virtual ~ChapLibrary() = default;
  /// The hash of the pieces in order; empty if the library does not have the algorithm.
  [[nodiscard]] virtual std::vector<std::byte> hash(ChapAlgorithm algorithm,
                                                    std::span<const ByteSpan> pieces) = 0;
  /// Octets that nobody can predict.
  virtual void fill_random(MutableByteSpan octets) = 0;
};

struct ChapAccount {
  std::string name;
  std::string secret;
  bool operator==(const ChapAccount&) const = default;
};

/// The accounts of one end; none at all: no authentication.
struct ChapPolicy {
  std::vector<ChapAccount> peers{};  ///< who may log in; as an initiator: what the target must be
  std::optional<ChapAccount> own{};  ///< as whom this end answers a challenge
  /// From the strongest on; what an initiator offers, or a target accepts.
  std::vector<ChapAlgorithm> algorithms{ChapAlgorithm::Sha3With256, ChapAlgorithm::Sha256,
                                        ChapAlgorithm::Sha1, ChapAlgorithm::Md5};

  [[nodiscard]] bool is_required() const { return !peers.empty(); }
};

/// InvalidArgument if a secret is shorter than 12 octets, or the same both ways (RFC 7143 §9.2.1).
[[nodiscard]] Result<void> check_chap_policy(const ChapPolicy& policy);

inline constexpr std::size_t kMaxChapBytes = 1024;  // RFC 7143 §12.1.3: challenge and response

/// The target's side of one authentication.
class ChapTarget {
 public:
  ChapTarget(const ChapPolicy& policy, ChapLibrary& library) : policy_(policy), library_(library) {}

  /// Takes the pairs of one Login Request and adds what the response says. PermissionDenied if the
  /// initiator is not who it says, InvalidArgument if it breaks the rules.
  Result<void> take(const TextPairs& pairs, TextWriter& answers);
  [[nodiscard]] bool is_done() const { return state_ == State::Done; }
  /// The name that was proven.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  enum class State : std::uint8_t { Start, Challenged, Done };
  Result<void> choose(const TextPairs& pairs, TextWriter& answers);
  Result<void> verify(const TextPairs& pairs, TextWriter& answers);
  Result<void> respond(const TextPairs& pairs, TextWriter& answers);

  const ChapPolicy& policy_;
  ChapLibrary& library_;
  State state_{State::Start};
  ChapAlgorithm algorithm_{};
  std::uint8_t identifier_{};
  std::vector<std::byte> challenge_;
  std::string name_;
};

/// The initiator's side.
class ChapInitiator {
 public:
  /// The target must prove itself if `policy.peers` is not empty.
  ChapInitiator(const ChapPolicy& policy, ChapLibrary& library)
      : policy_(policy), library_(library) {}

  /// CHAP_A, after AuthMethod=CHAP was chosen.
  void start(TextWriter& text);
  Result<void> take(const TextPairs& pairs, TextWriter& answers);
  /// True if nothing is left to be said or proven.
  [[nodiscard]] bool is_done() const { return state_ == State::Done; }

 private:
  enum class State : std::uint8_t { Offered, Responded, Done };
  Result<void> respond(const TextPairs& pairs, TextWriter& answers);
  Result<void> verify(const TextPairs& pairs);

  const ChapPolicy& policy_;
  ChapLibrary& library_;
  State state_{State::Offered};
  ChapAlgorithm algorithm_{};
  std::uint8_t identifier_{};
  std::vector<std::byte> challenge_;
};

}  // namespace weft::iscsi
