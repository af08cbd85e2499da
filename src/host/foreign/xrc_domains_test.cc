#include "host/foreign/xrc_domains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/testing/fake_process.h"

namespace weft::host {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kName = 9;
constexpr uabi::ProcessAddress kPeer{.node = 0, .slot = 5};

class DomainsOfFiles : public ::testing::Test {
 protected:
  DomainsOfFiles() {
    daemon_.reply = [this](const uabi::Message& message) {
      if (const auto* asked = message.get_if<uabi::OpenXrcDomain>()) {
        domains_.handle(uabi::XrcDomainOpened{
            .request = asked->request, .domain = name_, .may_retry = false, .reason = "refused"});
      }
    };
  }
  ~DomainsOfFiles() override { daemon_.finish(); }
  Result<hca::XrcDomain*> open() { return domains_.open(0, 0, true, false); }
  /// Another process opens the target.
  void open_target(const hca::Qp& qp) {
    uabi::XrcTargetRequest question;
    question.peer = kPeer;
    question.domain = kName;
    question.verb = uabi::TargetVerb::Open;
    question.target = qp.number();
    EXPECT_EQ(targets_.answer(question).error, 0U);
  }
  [[nodiscard]] static uabi::XrcRelay relay(uabi::XrcMessage word) {
    uabi::XrcRelay message;
    message.peer = kPeer;
    message.domain = kName;
    message.action = word;
    message.target = Qpn{0x14'0001};
    message.slid = Lid{2};
    message.port = PortNumber{1};
    message.path_mtu = verbs::Mtu::Mtu1024;
    return message;
  }

  std::uint32_t name_{kName};
  testing::FakeDaemon daemon_;
  testing::FakeObjects objects_;
  XrcProxies proxies_{objects_};
  SharedTargets targets_{daemon_, objects_};
  XrcDomains domains_{daemon_, objects_, proxies_, targets_, std::chrono::milliseconds{2'000}};
};

TEST_F(DomainsOfFiles, HaveTheNameThatTheDaemonGives) {
  const auto domain = open();
  ASSERT_TRUE(domain) << domain.error().reason;
  EXPECT_EQ((*domain)->name, kName);
}

TEST_F(DomainsOfFiles, AreRefusedInTheDaemonsWords) {
  name_ = 0;
  const auto domain = open();
  ASSERT_FALSE(domain);
  EXPECT_EQ(domain.error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(domain.error().reason, "refused");
}

TEST_F(DomainsOfFiles, AreNotWaitedForWhenTheDaemonIsGone) {
  daemon_.reply = {};
  daemon_.is_over = true;
  const auto domain = open();
  ASSERT_FALSE(domain);
  EXPECT_THAT(domain.error().reason, HasSubstr("gone"));
}

TEST_F(DomainsOfFiles, ThatNobodyWaitsForAreClosedAtOnce) {
  domains_.handle(
      uabi::XrcDomainOpened{.request = 123, .domain = kName, .may_retry = false, .reason = {}});
  EXPECT_EQ(daemon_.take<uabi::CloseXrcDomain>().size(), 1U);
}

TEST_F(DomainsOfFiles, AreNotClosedWhileTheProgramHasATarget) {
  hca::XrcDomain& domain = **open();
  targets_.note(0, objects_.make_target(domain));
  EXPECT_EQ(domains_.close(0, domain).error().code, ErrorCode::Busy);
  EXPECT_TRUE(daemon_.take<uabi::CloseXrcDomain>().empty());
}

TEST_F(DomainsOfFiles, StayUntilNoOtherProcessHasATargetOpen) {
  hca::XrcDomain& domain = **open();
  hca::Qp& qp = objects_.make_target(domain);
  targets_.note(0, qp);
  open_target(qp);
  EXPECT_FALSE(targets_.release(qp));
  EXPECT_TRUE(domains_.close(0, domain));
  EXPECT_TRUE(daemon_.take<uabi::CloseXrcDomain>().empty());
  domains_.remove_opener(kPeer, kName, qp.number());
  EXPECT_EQ(objects_.destroyed, 1);
  EXPECT_EQ(daemon_.take<uabi::CloseXrcDomain>().size(), 1U);
}

TEST_F(DomainsOfFiles, AreTheSameWhenTheyAreOpenedAgainMeanwhile) {
  hca::XrcDomain& domain = **open();
  hca::Qp& qp = objects_.make_target(domain);
  targets_.note(0, qp);
  open_target(qp);
  EXPECT_FALSE(targets_.release(qp));
  EXPECT_TRUE(domains_.close(0, domain));
  const auto again = open();
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, &domain);
  domains_.remove_opener(kPeer, kName, qp.number());
  EXPECT_TRUE(daemon_.take<uabi::CloseXrcDomain>().empty()) << "its program has it again";
}

TEST_F(DomainsOfFiles, HaveProxyQpsUntilTheyAreClosed) {
  hca::XrcDomain& domain = **open();
  domains_.handle(relay(uabi::XrcMessage::RequestProxy));
  const auto given = daemon_.take<uabi::XrcRelay>();
  ASSERT_EQ(given.size(), 1U);
  EXPECT_EQ(given[0].action, uabi::XrcMessage::Proxy);
  EXPECT_TRUE(domains_.close(0, domain)) << "a proxy QP is another process's";
  EXPECT_EQ(objects_.destroyed, 1);
  domains_.handle(relay(uabi::XrcMessage::RequestProxy));
  EXPECT_EQ(daemon_.take<uabi::XrcRelay>()[0].action, uabi::XrcMessage::NoProxy);
}

TEST_F(DomainsOfFiles, LoseTheProxyQpsOfAProcessThatLeaves) {
  ASSERT_TRUE(open());
  domains_.handle(relay(uabi::XrcMessage::RequestProxy));
  EXPECT_EQ(proxies_.count(kName), 1U);
  domains_.handle(relay(uabi::XrcMessage::PeerGone));
  EXPECT_EQ(proxies_.count(kName), 0U);
}

}  // namespace
}  // namespace weft::host
