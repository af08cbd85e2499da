// Extended CQs: the time of completions, and overrun; events that wait for more completions.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <cerrno>
#include <ctime>

#include "verbs_fixture.h"

namespace {

class ExtendedCq : public Verbs {
 protected:
  void make(const ibv_cq_init_attr_ex& from) {
    ibv_cq_init_attr_ex attributes = from;
    cq_ = ibv_create_cq_ex(context_, &attributes);
    ASSERT_NE(cq_, nullptr);
    auto qp_init = qp_attributes(ibv_cq_ex_to_cq(cq_));
    qp_ = ibv_create_qp(pd_, &qp_init);
    ASSERT_NE(qp_, nullptr);
    connect_to_itself(qp_);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_qp(qp_), 0);
    EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_)), 0);
    Verbs::TearDown();
  }
  void write_nothing(std::uint64_t id) {
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp_, &wr, &bad), 0);
  }
  [[nodiscard]] bool start_poll() const {
    ibv_poll_cq_attr none{};
    for (int i = 0; i < 20'000; ++i) {
      if (ibv_start_poll(cq_, &none) == 0) {
        return true;
      }
      usleep(100);
    }
    return false;
  }
  [[nodiscard]] std::uint64_t device_time() const {
    ibv_values_ex values{};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    EXPECT_EQ(ibv_query_rt_values_ex(context_, &values), 0);
    EXPECT_EQ(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
    return static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
  }
  [[nodiscard]] static std::uint64_t time_of_day() {
    timespec time{};
    clock_gettime(CLOCK_REALTIME, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_nsec);
  }

  ibv_cq_ex* cq_{};
  ibv_qp* qp_{};
};

TEST_F(ExtendedCq, SaysWhenACompletionCame) {
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &device), 0);
  EXPECT_NE(device.completion_timestamp_mask, 0U);
  EXPECT_EQ(device.hca_core_clock, 1'000'000U);
  ibv_cq_init_attr_ex attributes{};
  attributes.cqe = 8;
  attributes.wc_flags =
      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  make(attributes);
  const std::uint64_t before = device_time();
  const std::uint64_t wall_before = time_of_day();
  write_nothing(1);
  write_nothing(2);
  ASSERT_TRUE(start_poll());
  const std::uint64_t first = ibv_wc_read_completion_ts(cq_);
  EXPECT_GE(first, before);
  constexpr std::uint64_t kSlack = 1'000'000;  // the two clocks are read one after the other
  EXPECT_GE(ibv_wc_read_completion_wallclock_ns(cq_) + kSlack, wall_before);
  EXPECT_LE(ibv_wc_read_completion_wallclock_ns(cq_), time_of_day() + kSlack);
  ibv_end_poll(cq_);
  ASSERT_TRUE(start_poll());
  EXPECT_EQ(cq_->wr_id, 2U);
  EXPECT_GE(ibv_wc_read_completion_ts(cq_), first);
  EXPECT_LE(ibv_wc_read_completion_ts(cq_), device_time());
  ibv_end_poll(cq_);
}

class ModeratedCq : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    channel_ = ibv_create_comp_channel(context_);
    ASSERT_NE(channel_, nullptr);
    cq_ = ibv_create_cq(context_, 64, nullptr, channel_, 0);
    ASSERT_NE(cq_, nullptr);
    auto attributes = qp_attributes(cq_);
    qp_ = ibv_create_qp(pd_, &attributes);
    ASSERT_NE(qp_, nullptr);
    connect_to_itself(qp_);
    ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_qp(qp_), 0);
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    EXPECT_EQ(ibv_destroy_comp_channel(channel_), 0);
    Verbs::TearDown();
  }
  [[nodiscard]] int moderate(std::uint16_t count, std::uint16_t period_us) const {
    ibv_modify_cq_attr attributes{};
    attributes.attr_mask = IBV_CQ_ATTR_MODERATE;
    attributes.moderate = {.cq_count = count, .cq_period = period_us};
    return ibv_modify_cq(cq_, &attributes);
  }
  void write_nothing() const {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp_, &wr, &bad), 0);
  }
  [[nodiscard]] bool has_event(int within_ms) const {
    pollfd waits{.fd = channel_->fd, .events = POLLIN, .revents = 0};
    return poll(&waits, 1, within_ms) == 1;
  }
  void take_event() const {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel_, &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
  }

  ibv_comp_channel* channel_{};
  ibv_cq* cq_{};
  ibv_qp* qp_{};
};

TEST_F(ModeratedCq, HasLimitsThatHold) {
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &device), 0);
  ASSERT_GT(device.cq_mod_caps.max_cq_count, 0);
  ASSERT_GT(device.cq_mod_caps.max_cq_period, 0);
  EXPECT_EQ(moderate(device.cq_mod_caps.max_cq_count, device.cq_mod_caps.max_cq_period), 0);
  ibv_modify_cq_attr unknown{};
  unknown.attr_mask = 2;
  EXPECT_EQ(ibv_modify_cq(cq_, &unknown), EINVAL);
}

TEST_F(ModeratedCq, TellsAfterTheCount) {
  ASSERT_EQ(moderate(4, 0), 0);
  for (int i = 0; i < 3; ++i) {
    write_nothing();
  }
  EXPECT_FALSE(has_event(50));
  write_nothing();
  EXPECT_TRUE(has_event(20'000));
  take_event();
  ibv_wc wc{};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
  }
}

TEST_F(ModeratedCq, TellsAfterThePeriod) {
  ASSERT_EQ(moderate(1'000, 20'000), 0);
  timespec start{};
  clock_gettime(CLOCK_MONOTONIC, &start);
  write_nothing();
  EXPECT_TRUE(has_event(20'000));
  timespec end{};
  clock_gettime(CLOCK_MONOTONIC, &end);
  EXPECT_GE((end.tv_sec - start.tv_sec) * 1'000'000'000 + end.tv_nsec - start.tv_nsec, 20'000'000);
  take_event();
}

TEST_F(ExtendedCq, SurvivesAnOverrunThatItIgnores) {
  ibv_cq_init_attr_ex attributes{};
  attributes.cqe = 1;
  attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attributes.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  make(attributes);
  write_nothing(1);
  write_nothing(2);
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_TRUE(start_poll());
    const std::uint64_t id = cq_->wr_id;
    ibv_end_poll(cq_);
    if (id == 2) {
      return;
    }
  }
  FAIL() << "the second completion is lost";
}

}  // namespace
