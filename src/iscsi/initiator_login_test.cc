#include "iscsi/initiator_login.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "iscsi/testing/scripted_target.h"

namespace weft::iscsi {
namespace {

using testing::scripted_options;
using testing::ScriptedTarget;
using wire::iscsi::LoginRequest;
using wire::iscsi::LoginResponse;
using wire::iscsi::LoginStage;
using wire::iscsi::LoginStatus;

const ChapAccount kOwn{.name = "h1", .secret = "secret-of-h1-0"};
const ChapAccount kTarget{.name = "disks", .secret = "another-secret"};

std::string text_of(const ScriptedTarget& target) { return to_characters(target.last.data()); }

TEST(InitiatorLogin, NamesItselfFirstAndOffersItsKeys) {
  ScriptedTarget target;
  target.session.start(target.now);
  target.connected();
  const auto request = target.next<LoginRequest>();
  EXPECT_EQ(request.current_stage, LoginStage::LoginOperationalNegotiation);
  EXPECT_EQ(request.next_stage, LoginStage::FullFeature);
  const std::string text = text_of(target);
  const auto pairs = parse_text(text);
  ASSERT_TRUE(pairs);
  EXPECT_EQ(pairs->front().key, "InitiatorName");
  EXPECT_EQ(find_value(*pairs, "SessionType"), "Normal");
  EXPECT_EQ(find_value(*pairs, "HeaderDigest"), "None,CRC32C");
  EXPECT_EQ(find_value(*pairs, "ErrorRecoveryLevel"), "0");
}

// RFC 7143 §13.2, §13.21: Leading Only.
TEST(InitiatorLogin, AConnectionThatJoinsASessionHasNoKeysOfTheLeadingOne) {
  InitiatorOptions options = scripted_options();
  options.preferences.values.max_connections = 2;
  ScriptedTarget target{options};
  target.session.start(target.now);
  target.log_in({
      {"MaxConnections", "2"}
  });
  target.cid = 1;
  target.connected();
  EXPECT_EQ(target.next<LoginRequest>().tsih, 7);
  const std::string text = text_of(target);
  const auto pairs = parse_text(text);
  ASSERT_TRUE(pairs);
  EXPECT_EQ(pairs->front().key, "InitiatorName");
  EXPECT_EQ(find_value(*pairs, "TargetName"), testing::kTargetName);
  EXPECT_FALSE(find_value(*pairs, "SessionType"));
  EXPECT_FALSE(find_value(*pairs, "MaxConnections"));
}

const TextPairs kOverIser{
    {"RDMAExtensions",                 "Yes" },
    {"TargetRecvDataSegmentLength",    "8192"},
    {"InitiatorRecvDataSegmentLength", "8192"},
    {"iSERHelloRequired",              "Yes" }
};

// RFC 7145 §6.10: of the leading connection, and of the whole session.
TEST(InitiatorLogin, DeclaresAHelloOnceForItsSession) {
  InitiatorOptions options = scripted_options();
  options.preferences.values.max_connections = 2;
  ScriptedTarget target{options};
  target.limits_to_rdma = true;
  target.session.start(target.now);
  TextPairs answers = kOverIser;
  answers.push_back({"MaxConnections", "2"});
  target.log_in(answers);
  const std::string text = text_of(target);
  EXPECT_EQ(find_value(*parse_text(text), "iSERHelloRequired"), "Yes");
  ASSERT_TRUE(target.mover.agreed);
  EXPECT_EQ(target.mover.agreed->hello_required, true);
  EXPECT_EQ(target.session.state(), SessionState::Live);
  target.cid = 1;
  target.connected();
  static_cast<void>(target.next<LoginRequest>());
  const std::string joining = text_of(target);
  EXPECT_FALSE(find_value(*parse_text(joining), "iSERHelloRequired"));
  TextWriter joined;
  joined.add("HeaderDigest", "None").add("DataDigest", "None");
  joined.add("TargetRecvDataSegmentLength", "8192").add("InitiatorRecvDataSegmentLength", "8192");
  target.respond(joined, LoginStage::LoginOperationalNegotiation, LoginStage::FullFeature);
  ASSERT_TRUE(target.movers[1].agreed);
  EXPECT_EQ(target.movers[1].agreed->hello_required, true);
}

// A datamover whose ends have something to say to each other first.
TEST(InitiatorLogin, IsOverWhenTheTransportHasAgreed) {
  ScriptedTarget target;
  target.limits_to_rdma = true;
  target.delays_agreement = true;
  target.session.start(target.now);
  target.log_in(kOverIser);
  EXPECT_EQ(target.session.state(), SessionState::Connecting);
  auto& waiting = target.submit(false, 1);
  EXPECT_TRUE(target.is_quiet());
  target.session.client(0).handle_agreed(target.now);
  EXPECT_EQ(target.session.state(), SessionState::Live);
  EXPECT_FALSE(target.is_quiet()) << "the command that waited";
  EXPECT_FALSE(waiting.outcome);
  target.session.client(0).handle_agreed(target.now);  // again: nothing
  EXPECT_EQ(target.session.state(), SessionState::Live);
}

TEST(InitiatorLogin, FailsWhereTheTransportDoesNotAgreeInTime) {
  for (const bool is_lost : {true, false}) {
    ScriptedTarget target;
    target.limits_to_rdma = true;
    target.delays_agreement = true;
    target.session.start(target.now);
    target.log_in(kOverIser);
    if (is_lost) {
      target.lose();
    } else {
      target.pass(Duration::seconds(15));
    }
    EXPECT_EQ(target.session.state(), SessionState::Idle);
    EXPECT_EQ(std::ranges::count(target.states, SessionState::Live), 0);
  }
}

TEST(InitiatorLogin, ProvesItselfAndLetsTheTargetProveItself) {  // RFC 7143 §12.1.3
  InitiatorOptions options = scripted_options();
  options.chap = {.peers = {kTarget}, .own = kOwn};
  const ChapPolicy theirs{.peers = {kOwn}, .own = kTarget};
  for (const bool honest : {true, false}) {
    ScriptedTarget target{options};
    target.session.start(target.now);
    target.connected();
    ChapPolicy policy = theirs;
    if (!honest) {
      policy.own->secret = "not-that-secret";
    }
    ChapTarget chap{policy, target.chap};
    auto request = target.next<LoginRequest>();
    EXPECT_EQ(request.current_stage, LoginStage::SecurityNegotiation);
    EXPECT_FALSE(request.transit);
    TextWriter text;
    text.add("AuthMethod", "CHAP");
    target.respond(text, LoginStage::SecurityNegotiation, std::nullopt);
    while (!chap.is_done()) {
      request = target.next<LoginRequest>();
      const std::string said = text_of(target);
      ASSERT_TRUE(chap.take(*parse_text(said), text).has_value());
      if (!chap.is_done()) {
        EXPECT_FALSE(request.transit);
        target.respond(text, LoginStage::SecurityNegotiation, std::nullopt);
      }
    }
    EXPECT_TRUE(request.transit);
    target.respond(text, LoginStage::SecurityNegotiation, LoginStage::LoginOperationalNegotiation);
    EXPECT_EQ(target.mover.ended, !honest);
    if (honest) {
      EXPECT_EQ(target.next<LoginRequest>().current_stage, LoginStage::LoginOperationalNegotiation);
    } else {
      EXPECT_NE(target.mover.reason.find("secret"), std::string::npos);
      EXPECT_EQ(target.mover.reason.find(kTarget.secret), std::string::npos);
    }
  }
}

TEST(InitiatorLogin, ATargetThatLeavesOutItsProofIsRefused) {
  InitiatorOptions options = scripted_options();
  options.chap = {.peers = {kTarget}, .own = kOwn};
  ScriptedTarget target{options};
  target.session.start(target.now);
  target.connected();
  static_cast<void>(target.next<LoginRequest>());
  TextWriter text;
  text.add("AuthMethod", "None");
  target.respond(text, LoginStage::SecurityNegotiation, LoginStage::FullFeature);
  EXPECT_TRUE(target.mover.ended);
  EXPECT_TRUE(target.is_quiet());
}

TEST(InitiatorLogin, ATargetMayNotAnswerWhatWasNotOffered) {
  ScriptedTarget target;
  target.session.start(target.now);
  target.log_in({
      {"MaxBurstLength", "16777215"}
  });
  EXPECT_TRUE(target.mover.ended);
  EXPECT_NE(target.session.state(), SessionState::Live);
}

TEST(InitiatorLogin, FollowsARedirection) {  // RFC 7143 §11.13.5
  ScriptedTarget target;
  target.session.start(target.now);
  target.connected();
  static_cast<void>(target.next<LoginRequest>());
  LoginResponse response;
  response.status = LoginStatus::TargetMovedTemporarily;
  target.send(response, to_octets(std::string_view{"TargetAddress=10.0.0.9:3260,1\0", 30}));
  EXPECT_TRUE(target.mover.ended);
  target.lose();
  EXPECT_EQ(target.asked.back(), "10.0.0.9:3260");
  target.log_in();
  EXPECT_EQ(target.session.state(), SessionState::Live);
}

TEST(InitiatorLogin, SaysWhyItWasRefused) {
  for (const auto& [status, words] : {
           std::pair{LoginStatus::AuthenticationFailure, "does not admit"           },
           std::pair{LoginStatus::NotFound,              "there is no target"       },
           std::pair{LoginStatus::OutOfResources,        "cannot take the login now"}
  }) {
    ScriptedTarget target;
    target.session.start(target.now);
    target.connected();
    static_cast<void>(target.next<LoginRequest>());
    LoginResponse response;
    response.status = status;
    target.send(response);
    target.pass({});
    EXPECT_EQ(target.session.state(), SessionState::Idle);
    EXPECT_NE(target.session.reason().find(words), std::string::npos) << target.session.reason();
  }
}

TEST(InitiatorLogin, ALoginThatTakesTooLongIsEnded) {
  ScriptedTarget target;
  target.session.start(target.now);
  target.connected();
  target.pass(Duration::seconds(15));
  EXPECT_EQ(target.session.state(), SessionState::Idle);
}

}  // namespace
}  // namespace weft::iscsi
