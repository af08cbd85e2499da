#pragma once

// What tests of the library share: verbs of a live host, and a scripted daemon for connections.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cstring>
#include <memory>
#include <string>

#include "scripted_daemon.h"

class RdmaCm : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  [[nodiscard]] static sockaddr_in address(const char* text, std::uint16_t port) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_port = htons(port);
    EXPECT_EQ(inet_pton(AF_INET, text, &out.sin_addr), 1);
    return out;
  }
  [[nodiscard]] static sockaddr* generic(sockaddr_in& address) {
    return static_cast<sockaddr*>(static_cast<void*>(&address));
  }
  [[nodiscard]] static ibv_qp_init_attr qp_attributes(ibv_qp_type type = IBV_QPT_RC) {
    ibv_qp_init_attr attributes{};
    attributes.qp_type = type;
    attributes.cap = {.max_send_wr = 8,
                      .max_recv_wr = 8,
                      .max_send_sge = 1,
                      .max_recv_sge = 1,
                      .max_inline_data = 0};
    return attributes;
  }
  /// As the daemon calls the id.
  [[nodiscard]] std::uint32_t number_of_last_id() const { return daemon_->newest_id(); }

  /// The next event, which must be of this type; null if it is not.
  [[nodiscard]] rdma_cm_event* next(rdma_cm_event_type type) const;
  /// The same, and acknowledges it.
  void pass(rdma_cm_event_type type) const;

  /// An id that listens at a port of 127.77.0.1.
  [[nodiscard]] rdma_cm_id* listener(std::uint16_t port, rdma_port_space space = RDMA_PS_TCP) const;
  /// An id whose way to that port is known.
  [[nodiscard]] rdma_cm_id* resolved(std::uint16_t port, rdma_port_space space = RDMA_PS_TCP) const;

  std::unique_ptr<weft::testing::ScriptedDaemon> daemon_;
  rdma_event_channel* channel_{};
};
