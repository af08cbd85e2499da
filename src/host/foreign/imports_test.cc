#include "host/foreign/imports.h"

#include <gtest/gtest.h>

#include <atomic>

#include "host/testing/fake_process.h"

namespace weft::host {
namespace {

constexpr uabi::ProcessAddress kOwner{.node = 0, .slot = 5};
constexpr uabi::ProcessAddress kLiar{.node = 0, .slot = 6};
constexpr ImportedDevice kDevice{.number = 4, .owner = kOwner, .hca = 0};

class ImportedDevices : public ::testing::Test {
 protected:
  ~ImportedDevices() override { daemon_.finish(); }

  testing::FakeDaemon daemon_;
  testing::FakeProgram program_;
  Imports imports_{daemon_, program_, std::chrono::milliseconds{2'000}};
};

TEST_F(ImportedDevices, AreAskedForAgainWhileTheirOwnerMayNotHaveSharedThemYet) {
  std::atomic<int> asked{0};
  daemon_.reply = [&](const uabi::Message& message) {
    if (const auto* question = message.get_if<uabi::ImportDevice>()) {
      uabi::DeviceImported answer;
      answer.request = question->request;
      answer.may_retry = true;
      if (++asked == 3) {
        answer.device = 4;
        answer.owner = kOwner;
      }
      imports_.handle(answer);
    }
  };
  const auto device = imports_.import_device(0);
  ASSERT_TRUE(device) << device.error().reason;
  EXPECT_EQ(device->number, 4U);
  EXPECT_EQ(device->owner, kOwner);
  EXPECT_EQ(asked, 3);
}

TEST_F(ImportedDevices, AreLeftWhenNobodyWaitsForThemAnyMore) {
  uabi::DeviceImported late;
  late.request = 99;
  late.device = 4;
  imports_.handle(late);
  EXPECT_EQ(daemon_.take<uabi::LeaveDevice>().size(), 1U);
}

TEST_F(ImportedDevices, AreSharedWithADescriptorOfTheirOwn) {
  imports_.share_device(2, 0);
  EXPECT_TRUE(daemon_.last_had_descriptor());
  const auto told = daemon_.take<uabi::ShareDevice>();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].hca, 2U);
  EXPECT_FALSE(told[0].is_over);
}

TEST_F(ImportedDevices, HaveObjectsOfWhichTheirOwnerAloneSpeaks) {
  daemon_.reply = [&](const uabi::Message& message) {
    if (const auto* question = message.get_if<uabi::ObjectRequest>()) {
      uabi::ObjectAnswer answer;
      answer.serial = question->serial;
      answer.peer = kLiar;
      answer.key = 1;
      imports_.handle(answer);
      answer.peer = kOwner;
      answer.key = 2;
      imports_.handle(answer);
    }
  };
  const auto answer = imports_.ask_for_object(kDevice, uabi::ImportVerb::Region, 7);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->key, 2U);
}

TEST_F(ImportedDevices, AnswerNothingAnyMoreWhenTheirOwnerIsGone) {
  daemon_.reply = [&](const uabi::Message& message) {
    if (message.holds<uabi::ObjectRequest>()) {
      imports_.handle(uabi::DeviceGone{.peer = kOwner, .device = 4});
    }
  };
  const auto answer = imports_.ask_for_object(kDevice, uabi::ImportVerb::Region, 7);
  daemon_.finish();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::NoSuchDevice);
  EXPECT_EQ(program_.gone_device, 4U);
}

TEST_F(ImportedDevices, AreAnsweredForByTheProgramThatSharesThem) {
  uabi::ObjectRequest question;
  question.peer = kLiar;
  question.device = 4;
  question.serial = 12;
  imports_.handle(question);
  const auto told = daemon_.take<uabi::ObjectAnswer>();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].peer, kLiar);
  EXPECT_EQ(told[0].serial, 12U);
  EXPECT_EQ(told[0].key, 77U);
}

TEST_F(ImportedDevices, AreNotWaitedForWhenTheDaemonIsGone) {
  daemon_.is_over = true;
  const auto answer = imports_.ask_for_object(kDevice, uabi::ImportVerb::Region, 7);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::Io);
}

}  // namespace
}  // namespace weft::host
