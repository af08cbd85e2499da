#include "iwpm/requests.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace weft::iwpm {
namespace {

constexpr Instant kStart{};
constexpr Instant kDeadline = kStart + Duration::seconds(10);

TEST(IwpmRequests, BeginOpenWithTwoReferences) {
  RequestList list{2};
  NlmsgRequest* request = list.get_nlmsg_request(7, 2, kDeadline);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->references(), 2U);
  EXPECT_FALSE(request->is_done());
  EXPECT_EQ(request->error(), 0);
  EXPECT_EQ(request->sequence(), 7U);
  EXPECT_EQ(request->client(), 2);
  EXPECT_EQ(list.get_nlmsg_request(7, 2, kDeadline), nullptr);  // the number is taken
  EXPECT_NE(list.get_nlmsg_request(8, 2, kDeadline), nullptr);
  EXPECT_EQ(list.get_nlmsg_request(9, 2, kDeadline), nullptr);  // there is no more memory
  EXPECT_EQ(list.size(), 2U);
  list.check_invariants();
}

TEST(IwpmRequests, AreFoundWhileTheyAreOpenAndKeptByWhoFoundThem) {
  RequestList list{4};
  NlmsgRequest* request = list.get_nlmsg_request(7, 2, kDeadline);
  EXPECT_EQ(list.find_nlmsg_request(8), nullptr);
  ASSERT_EQ(list.find_nlmsg_request(7), request);
  EXPECT_EQ(request->references(), 3U);
  EXPECT_EQ(list.wait_complete_req(*request, kStart), std::nullopt);
  list.complete(*request, 16);
  EXPECT_EQ(request->references(), 2U);  // the finder's and the waiter's
  EXPECT_EQ(list.find_nlmsg_request(7), nullptr);
  EXPECT_EQ(list.wait_complete_req(*request, kStart), (WaitResult{16, false}));
  EXPECT_EQ(list.size(), 1U);  // the finder still has it
  list.put(*request);
  EXPECT_EQ(list.size(), 0U);
}

TEST(IwpmRequests, ALateAnswerFindsNothing) {
  RequestList list{4};
  NlmsgRequest* request = list.get_nlmsg_request(7, 2, kDeadline);
  EXPECT_EQ(list.first_deadline(), kDeadline);
  EXPECT_EQ(list.wait_complete_req(*request, kDeadline - Duration::nanoseconds(1)), std::nullopt);
  EXPECT_EQ(list.wait_complete_req(*request, kDeadline), (WaitResult{-EINVAL, true}));
  EXPECT_EQ(list.find_nlmsg_request(7), nullptr);
  EXPECT_EQ(list.size(), 0U);
  EXPECT_EQ(list.first_deadline(), Instant::never());
}

}  // namespace
}  // namespace weft::iwpm
