// The login phase against a target (RFC 7143 §6.3, §11.12, §11.13).

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "iscsi/chap.h"
#include "iscsi/testing/scripted_initiator.h"
#include "wire/iscsi/nop.h"
#include "wire/iscsi/reject.h"

namespace weft::iscsi {
namespace {

using testing::Connection;
using testing::Fixture;
using wire::iscsi::LoginRequest;
using wire::iscsi::LoginResponse;
using wire::iscsi::LoginStage;
using wire::iscsi::LoginStatus;

[[nodiscard]] LoginRequest request(LoginStage from, LoginStage to, bool transit = true) {
  LoginRequest login;
  login.transit = transit;
  login.current_stage = from;
  login.next_stage = to;
  return login;
}

const TextPairs kNames{
    {"InitiatorName", testing::kInitiatorName},
    {"SessionType",   "Normal"               },
    {"TargetName",    testing::kTargetName   }
};

[[nodiscard]] TextPairs with(TextPairs pairs, const TextPairs& more) {
  pairs.insert(pairs.end(), more.begin(), more.end());
  return pairs;
}

TEST(TargetLogin, GoesThroughBothStages) {
  Fixture fixture;
  Connection connection{fixture};
  const auto first = connection.login_step(
      request(LoginStage::SecurityNegotiation, LoginStage::LoginOperationalNegotiation),
      with(kNames, TextPairs{
                       {"AuthMethod", "CHAP,None"}
  }));
  EXPECT_EQ(first.status, LoginStatus::Success);
  EXPECT_TRUE(first.transit);
  EXPECT_EQ(first.next_stage, LoginStage::LoginOperationalNegotiation);
  EXPECT_EQ(first.tsih, 0);
  EXPECT_EQ(connection.answer("AuthMethod"), "None");
  EXPECT_EQ(connection.answer("TargetPortalGroupTag"), "1");
  const auto second = connection.login_step(
      request(LoginStage::LoginOperationalNegotiation, LoginStage::FullFeature),
      {
          {"HeaderDigest",             "CRC32C,None"},
          {"MaxRecvDataSegmentLength", "65536"      },
          {"InitialR2T",               "No"         }
  });
  EXPECT_EQ(second.status, LoginStatus::Success);
  EXPECT_TRUE(second.transit);
  EXPECT_NE(second.tsih, 0);
  EXPECT_EQ(second.stat_sn, first.stat_sn + 1);
  EXPECT_EQ(connection.answer("HeaderDigest"), "CRC32C");
  EXPECT_EQ(connection.answer("MaxRecvDataSegmentLength"), "262144");
  EXPECT_TRUE(connection.mover.header_digest);
  EXPECT_FALSE(connection.mover.data_digest);
  EXPECT_EQ(fixture.server.sessions(), 1U);
}

// RFC 7145 §6.10: the leading connection's, and of the whole session.
TEST(TargetLogin, AgreesOnAHelloForItsSession) {
  ServerOptions options;
  options.preferences.values.rdma_extensions = true;
  options.preferences.values.hello_required = true;
  Fixture fixture{options};
  Connection connection{fixture};
  const auto response = connection.login({
      {"RDMAExtensions",    "Yes"},
      {"iSERHelloRequired", "Yes"},
      {"MaxConnections",    "2"  }
  });
  EXPECT_EQ(response.status, LoginStatus::Success);
  EXPECT_EQ(connection.answer("iSERHelloRequired"), "Yes");
  ASSERT_TRUE(connection.mover.agreed);
  EXPECT_EQ(connection.mover.agreed->hello_required, true);
  Connection second{fixture};
  second.cid = 2;
  EXPECT_EQ(second.login({}, response.tsih).status, LoginStatus::Success);
  ASSERT_TRUE(second.mover.agreed);
  EXPECT_EQ(second.mover.agreed->hello_required, true);
  Connection another{fixture};
  another.isid = connection.isid + 1;
  EXPECT_EQ(another.login().status, LoginStatus::Success);
  ASSERT_TRUE(another.mover.agreed);
  EXPECT_EQ(another.mover.agreed->hello_required, std::nullopt) << "nobody has said";
}

TEST(TargetLogin, RefusesWithTheStatusOfTheReason) {  // RFC 7143 §11.13.5
  struct Case {
    TextPairs keys;
    LoginStatus status;
  };
  for (const Case& row : std::vector<Case>{
           {{{"SessionType", "Normal"}, {"TargetName", testing::kTargetName}},
            LoginStatus::MissingParameter},
           {{{"InitiatorName", testing::kInitiatorName}}, LoginStatus::MissingParameter},
           {{{"InitiatorName", testing::kInitiatorName}, {"TargetName", "iqn.other"}},
            LoginStatus::NotFound},
           {with(kNames, TextPairs{{"MaxBurstLength", "4096"}, {"MaxBurstLength", "4096"}}),
            LoginStatus::InitiatorError},
           {{{"InitiatorName", "no name"}, {"TargetName", testing::kTargetName}},
            LoginStatus::InitiatorError},
           {{{"InitiatorName", testing::kInitiatorName}, {"SessionType", "Other"}},
            LoginStatus::SessionTypeNotSupported},
  }) {
    Fixture fixture;
    Connection connection{fixture};
    const auto response = connection.login_step(
        request(LoginStage::LoginOperationalNegotiation, LoginStage::FullFeature), row.keys);
    EXPECT_EQ(response.status, row.status);
    EXPECT_FALSE(response.transit);
    EXPECT_TRUE(connection.mover.ended);
    EXPECT_EQ(fixture.server.sessions(), 0U);
  }
}

TEST(TargetLogin, RefusesOtherVersionsAndStages) {
  Fixture fixture;
  LoginRequest newer = request(LoginStage::LoginOperationalNegotiation, LoginStage::FullFeature);
  newer.version_max = 2;
  newer.version_min = 1;
  EXPECT_EQ(Connection{fixture}.login_step(newer, kNames).status, LoginStatus::UnsupportedVersion);
  const auto back =
      request(LoginStage::LoginOperationalNegotiation, LoginStage::SecurityNegotiation);
  EXPECT_EQ(Connection{fixture}.login_step(back, kNames).status, LoginStatus::InitiatorError);
  const auto reserved = request(static_cast<LoginStage>(2), LoginStage::FullFeature);
  EXPECT_EQ(Connection{fixture}.login_step(reserved, kNames).status, LoginStatus::InitiatorError);
  LoginRequest both = request(LoginStage::LoginOperationalNegotiation, LoginStage::FullFeature);
  both.continues = true;
  EXPECT_EQ(Connection{fixture}.login_step(both, kNames).status, LoginStatus::InitiatorError);
  LoginRequest unknown = request(LoginStage::LoginOperationalNegotiation, LoginStage::FullFeature);
  unknown.tsih = 77;
  EXPECT_EQ(Connection{fixture}.login_step(unknown, kNames).status,
            LoginStatus::SessionDoesNotExist);
}

TEST(TargetLogin, TakesTextOverSeveralPdus) {  // RFC 7143 §6.2, C bit
  Fixture fixture;
  Connection connection{fixture};
  TextWriter text;
  for (const TextPair& pair : kNames) {
    text.add(pair.key, pair.value);
  }
  const std::string whole = text.take();
  LoginRequest part =
      request(LoginStage::LoginOperationalNegotiation, LoginStage::FullFeature, false);
  part.isid = connection.isid;
  part.cid = connection.cid;
  part.continues = true;
  connection.send(part, to_octets(whole.substr(0, 20)));
  std::vector<std::byte> data;
  const auto more = connection.next<LoginResponse>(&data);
  EXPECT_EQ(more.status, LoginStatus::Success);
  EXPECT_FALSE(more.transit || more.continues);
  EXPECT_TRUE(data.empty());
  part.continues = false;
  part.transit = true;
  connection.send(part, to_octets(whole.substr(20)));
  EXPECT_TRUE(connection.next<LoginResponse>().transit);
}

TEST(TargetLogin, WantsChapWhereThereAreSecrets) {
  Fixture fixture;
  fixture.node.chap.peers = {
      {"h1", "secret-of-the-initiator"}
  };
  ASSERT_TRUE(fixture.server.change_node(fixture.node).has_value());
  const auto skip = request(LoginStage::LoginOperationalNegotiation, LoginStage::FullFeature);
  EXPECT_EQ(Connection{fixture}.login_step(skip, kNames).status,
            LoginStatus::AuthenticationFailure);
  const auto security =
      request(LoginStage::SecurityNegotiation, LoginStage::LoginOperationalNegotiation);
  const TextPairs downgrade{
      {"AuthMethod", "None"}
  };
  EXPECT_EQ(Connection{fixture}.login_step(security, with(kNames, downgrade)).status,
            LoginStatus::AuthenticationFailure);
  // To leave the stage without a word of CHAP is not to leave it.
  EXPECT_FALSE(Connection{fixture}.login_step(security, kNames).transit);
}

TEST(TargetLogin, ProvesTheInitiatorByChap) {
  for (const bool right : {true, false}) {
    Fixture fixture;
    fixture.node.chap.peers = {
        {"h1", "secret-of-the-initiator"}
    };
    ASSERT_TRUE(fixture.server.change_node(fixture.node).has_value());
    Connection connection{fixture};
    const auto stay =
        request(LoginStage::SecurityNegotiation, LoginStage::LoginOperationalNegotiation, false);
    const auto leave = request(LoginStage::SecurityNegotiation, LoginStage::FullFeature);
    const TextPairs method{
        {"AuthMethod", "CHAP,None"}
    };
    EXPECT_EQ(connection.login_step(stay, with(kNames, method)).status, LoginStatus::Success);
    EXPECT_EQ(connection.answer("AuthMethod"), "CHAP");
    const ChapPolicy policy{
        .peers = {},
        .own = ChapAccount{"h1", right ? "secret-of-the-initiator" : "another-secret-of-it"}
    };
    ChapInitiator initiator{policy, fixture.chap};
    TextWriter offer;
    initiator.start(offer);
    EXPECT_EQ(connection.login_step(stay, *parse_text(offer.text())).status, LoginStatus::Success);
    TextWriter proof;
    const std::string challenge = connection.answers;
    ASSERT_TRUE(initiator.take(*parse_text(challenge), proof).has_value());
    const auto last = connection.login_step(leave, *parse_text(proof.text()));
    EXPECT_EQ(last.status, right ? LoginStatus::Success : LoginStatus::AuthenticationFailure);
    EXPECT_EQ(last.transit, right);
    EXPECT_EQ(fixture.server.sessions(), right ? 1U : 0U);
  }
}

TEST(TargetLogin, AdmitsOnlyWhoIsListed) {
  Fixture fixture;
  fixture.node.initiators = {"iqn.2026-01.org.example:other"};
  ASSERT_TRUE(fixture.server.change_node(fixture.node).has_value());
  EXPECT_EQ(Connection{fixture}.login().status, LoginStatus::AuthorizationFailure);
}

TEST(TargetLogin, ReinstatesASession) {  // RFC 7143 §6.3.5
  Fixture fixture;
  Connection first{fixture};
  const auto old = first.login();
  Connection again{fixture};
  const auto fresh = again.login();
  EXPECT_EQ(fresh.status, LoginStatus::Success);
  EXPECT_NE(fresh.tsih, old.tsih);
  EXPECT_TRUE(first.mover.ended);
  EXPECT_EQ(fixture.server.sessions(), 1U);
  Connection other{fixture};
  other.isid = 0x8000'0000'0002;
  EXPECT_EQ(other.login().status, LoginStatus::Success);
  EXPECT_FALSE(again.mover.ended);
  EXPECT_EQ(fixture.server.sessions(), 2U);
}

TEST(TargetLogin, AddsConnectionsToASession) {
  Fixture fixture;
  Connection first{fixture};
  const TextPairs keys{
      {"MaxConnections", "2"}
  };
  const auto leading = first.login(keys);
  Connection second{fixture};
  second.cid = 2;
  EXPECT_EQ(second.login({}, leading.tsih).status, LoginStatus::Success);
  Connection third{fixture};
  third.cid = 3;
  EXPECT_EQ(third.login({}, leading.tsih).status, LoginStatus::TooManyConnections);
  Connection reinstated{fixture};
  reinstated.cid = 2;
  EXPECT_EQ(reinstated.login({}, leading.tsih).status, LoginStatus::Success);
  EXPECT_TRUE(second.mover.ended);
  EXPECT_FALSE(first.mover.ended);
  EXPECT_EQ(fixture.server.sessions(), 1U);
  Connection stranger{fixture};
  stranger.isid = 5;
  stranger.cid = 4;
  EXPECT_EQ(stranger.login({}, leading.tsih).status, LoginStatus::CannotIncludeInSession);
}

TEST(TargetLogin, EndsWhatBeginsOtherwiseOrTakesTooLong) {
  Fixture fixture;
  Connection stranger{fixture};
  stranger.send(wire::iscsi::NopOut{});
  EXPECT_TRUE(stranger.mover.ended);
  Connection slow{fixture};
  EXPECT_EQ(fixture.server.deadline(), Instant{Duration::seconds(30)});
  fixture.server.handle_timeout(Instant{Duration::seconds(30)});
  EXPECT_TRUE(slow.mover.ended);
}

TEST(TargetLogin, KeepsItsLimitOfConnections) {
  Fixture fixture{{.max_connections = 1}};
  const Connection first{fixture};
  testing::RecordingDatamover mover;
  EXPECT_EQ(fixture.server.accept(mover, {}), nullptr);
}

TEST(TargetLogin, AFloodOfLoginsEndsItsOwnOldest) {
  Fixture fixture{{.max_logins = 2}};
  Connection member{fixture};
  EXPECT_EQ(member.login().status, LoginStatus::Success);
  const Connection first{fixture};
  const Connection second{fixture};
  EXPECT_FALSE(first.mover.ended);
  Connection third{fixture};
  third.isid = 9;
  EXPECT_TRUE(first.mover.ended);
  EXPECT_FALSE(second.mover.ended);
  EXPECT_EQ(third.login().status, LoginStatus::Success);
  EXPECT_FALSE(member.mover.ended);
}

}  // namespace
}  // namespace weft::iscsi
