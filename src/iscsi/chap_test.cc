#include "iscsi/chap.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "iscsi/testing/fake_chap_library.h"

namespace weft::iscsi {
namespace {

const ChapAccount kInitiator{.name = "h1", .secret = "secret-of-the-initiator"};
const ChapAccount kTarget{.name = "disks", .secret = "secret-of-the-target"};

struct Ends {
  ChapPolicy initiator{.peers = {}, .own = kInitiator};
  ChapPolicy target{.peers = {kInitiator}, .own = std::nullopt};
};

/// Runs both ends until the target is done or one refuses; the reason, or "done".
[[nodiscard]] std::string authenticate(const Ends& ends) {
  testing::FakeChapLibrary library;
  ChapInitiator initiator{ends.initiator, library};
  ChapTarget target{ends.target, library};
  TextWriter to_target;
  initiator.start(to_target);
  for (int round = 0; round < 3; ++round) {
    const std::string request = to_target.take();
    TextWriter to_initiator;
    if (const auto taken = target.take(*parse_text(request), to_initiator); !taken) {
      return "target: " + taken.error().reason;
    }
    if (initiator.is_done() && target.is_done()) {
      return "done";
    }
    const std::string response = to_initiator.take();
    if (const auto taken = initiator.take(*parse_text(response), to_target); !taken) {
      return "initiator: " + taken.error().reason;
    }
    if (initiator.is_done() && target.is_done()) {
      return "done";
    }
  }
  return "no end";
}

TEST(Chap, ProvesTheInitiator) {  // RFC 7143 §12.1.3
  Ends ends;
  EXPECT_EQ(authenticate(ends), "done");
  ends.initiator.own->secret += "x";
  EXPECT_EQ(authenticate(ends), "target: CHAP: the response of h1 is not the secret's");
  ends.initiator.own = ChapAccount{.name = "h2", .secret = kInitiator.secret};
  EXPECT_EQ(authenticate(ends), "target: CHAP: the response of h2 is not the secret's");
}

TEST(Chap, ProvesBothEnds) {
  Ends ends;
  ends.initiator.peers = {kTarget};
  EXPECT_EQ(authenticate(ends), "target: this target has no account to prove itself by");
  ends.target.own = kTarget;
  EXPECT_EQ(authenticate(ends), "done");
  ends.target.own->secret += "x";
  EXPECT_EQ(authenticate(ends), "initiator: the target has not proven that it has the secret");
  ends.target.own = ChapAccount{.name = "other", .secret = kTarget.secret};
  EXPECT_EQ(authenticate(ends), "initiator: the target has not proven that it has the secret");
}

TEST(Chap, TakesTheFirstAlgorithmThatBothHave) {
  Ends ends;
  ends.target.algorithms = {ChapAlgorithm::Sha256};
  EXPECT_EQ(authenticate(ends), "done");
  ends.initiator.algorithms = {ChapAlgorithm::Md5};
  EXPECT_EQ(authenticate(ends), "target: no algorithm of CHAP_A=5 is accepted");
}

TEST(Chap, RefusesAReflectedChallenge) {  // RFC 7143 §9.2.1
  testing::FakeChapLibrary library;
  const ChapPolicy policy{.peers = {kInitiator}, .own = kTarget};
  ChapTarget target{policy, library};
  TextWriter challenge;
  ASSERT_TRUE(target
                  .take(
                      TextPairs{
                          {"CHAP_A", "5"}
  },
                      challenge)
                  .has_value());
  const auto challenged = parse_text(challenge.text());
  // An initiator that knows the secret for once, but sends the target's challenge back.
  const ChapPolicy own{.peers = {kTarget}, .own = kInitiator};
  ChapInitiator initiator{own, library};
  TextWriter honest;
  ASSERT_TRUE(initiator.take(*challenged, honest).has_value());
  auto pairs = *parse_text(honest.text());
  for (TextPair& pair : pairs) {
    if (pair.key == "CHAP_C") {
      pair.value = *find_value(*challenged, "CHAP_C");
    }
  }
  TextWriter answers;
  const auto refused = target.take(pairs, answers);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().reason, "the initiator's challenge is this target's own");
  EXPECT_TRUE(answers.empty());
}

// Who has heard a whole authentication knows no answer to the next challenge.
TEST(Chap, AResponseThatWasHeardProvesNothingLater) {
  testing::FakeChapLibrary library;
  const ChapPolicy policy{.peers = {kInitiator}, .own = {}};
  const ChapPolicy own{.peers = {}, .own = kInitiator};
  std::string heard;
  for (const bool replays : {false, true}) {
    ChapTarget target{policy, library};
    ChapInitiator initiator{own, library};
    TextWriter offer;
    initiator.start(offer);
    TextWriter challenge;
    const std::string offered = offer.take();
    ASSERT_TRUE(target.take(*parse_text(offered), challenge).has_value());
    if (!replays) {
      TextWriter proof;
      const std::string challenged = challenge.take();
      ASSERT_TRUE(initiator.take(*parse_text(challenged), proof).has_value());
      heard = proof.take();
    }
    TextWriter answers;
    const auto taken = target.take(*parse_text(heard), answers);
    EXPECT_EQ(taken.has_value(), !replays);
    EXPECT_EQ(target.is_done(), !replays);
    if (replays) {
      EXPECT_EQ(taken.error().code, ErrorCode::PermissionDenied);
      // Nor does it begin anew.
      EXPECT_FALSE(target.take(*parse_text(offered), answers).has_value());
    }
  }
}

/// As a library in FIPS mode.
class WithoutMd5 final : public ChapLibrary {
 public:
  [[nodiscard]] std::vector<std::byte> hash(ChapAlgorithm algorithm,
                                            std::span<const ByteSpan> pieces) override {
    return algorithm == ChapAlgorithm::Md5 ? std::vector<std::byte>{}
                                           : library_.hash(algorithm, pieces);
  }
  void fill_random(MutableByteSpan octets) override { library_.fill_random(octets); }

 private:
  testing::FakeChapLibrary library_;
};

// Nobody in between makes an end take an algorithm that it does not have, or does not want.
TEST(Chap, RefusesADowngrade) {
  WithoutMd5 library;
  const ChapPolicy all{.peers = {}, .own = kInitiator};
  ChapPolicy strong = all;
  strong.algorithms = {ChapAlgorithm::Sha256};
  for (const ChapPolicy& policy : {all, strong}) {
    ChapInitiator initiator{policy, library};
    TextWriter offer;
    initiator.start(offer);
    EXPECT_EQ(offer.text().find('5'), std::string::npos);
    TextWriter answers;
    const TextPairs weaker{
        {"CHAP_A", "5"     },
        {"CHAP_I", "1"     },
        {"CHAP_C", "0x0102"}
    };
    EXPECT_FALSE(initiator.take(weaker, answers).has_value());
    EXPECT_TRUE(answers.empty());
    EXPECT_FALSE(initiator.is_done());
  }
  ChapPolicy accepts{.peers = {kInitiator}, .own = {}};
  accepts.algorithms = {ChapAlgorithm::Sha256};
  ChapTarget target{accepts, library};
  TextWriter answers;
  const TextPairs stripped{
      {"CHAP_A", "5,6"}
  };
  EXPECT_EQ(target.take(stripped, answers).error().code, ErrorCode::PermissionDenied);
}

TEST(Chap, ChallengesAreNeverTheSame) {
  testing::FakeChapLibrary library;
  const ChapPolicy policy{.peers = {kInitiator}, .own = {}};
  std::set<std::string> texts;
  for (int i = 0; i < 8; ++i) {
    ChapTarget target{policy, library};
    TextWriter text;
    ASSERT_TRUE(target
                    .take(
                        TextPairs{
                            {"CHAP_A", "5"}
    },
                        text)
                    .has_value());
    texts.insert(text.text());
  }
  EXPECT_EQ(texts.size(), 8U);
}

TEST(Chap, RefusesWhatIsMissingOrOutOfTurn) {
  testing::FakeChapLibrary library;
  const ChapPolicy policy{.peers = {kInitiator}, .own = {}};
  ChapTarget target{policy, library};
  TextWriter text;
  EXPECT_FALSE(target.take(TextPairs{}, text).has_value());
  ASSERT_TRUE(target
                  .take(
                      TextPairs{
                          {"CHAP_A", "5"}
  },
                      text)
                  .has_value());
  EXPECT_FALSE(target
                   .take(
                       TextPairs{
                           {"CHAP_N", "h1"}
  },
                       text)
                   .has_value());
  EXPECT_FALSE(target
                   .take(
                       TextPairs{
                           {"CHAP_N", "h1"},
                           {"CHAP_R", "00"}
  },
                       text)
                   .has_value());
  EXPECT_FALSE(target.is_done());
}

TEST(Chap, SecretsAreLongAndDiffer) {  // RFC 7143 §9.2.1
  EXPECT_TRUE(check_chap_policy({.peers = {kInitiator}, .own = kTarget}).has_value());
  EXPECT_FALSE(check_chap_policy({.peers = {{"h1", "elevenbytes"}}, .own = {}}).has_value());
  EXPECT_FALSE(check_chap_policy({
                                     .peers = {kInitiator},
                                       .own = ChapAccount{"t", "short"}
  })
                   .has_value());
  EXPECT_FALSE(
      check_chap_policy({
                            .peers = {kInitiator},
                              .own = ChapAccount{"t", kInitiator.secret}
  })
          .has_value());
}

}  // namespace
}  // namespace weft::iscsi
