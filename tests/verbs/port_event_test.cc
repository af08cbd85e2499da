// The rest of the table of ibv_get_async_event(3): what becomes of ports and of the device reaches
// a program, and ibv_query_port(3) says the same. The daemon is the test's.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <array>
#include <string>
#include <thread>

#include "host/testing/tables_daemon.h"

namespace {

using weft::Gid;
using weft::Guid;
using weft::Lid;
using weft::PKey;
using weft::fabric::PortIndex;
using weft::fabric::PortState;
using weft::fabric::TablesBuilder;
using weft::host::testing::TablesDaemon;

struct Row {
  ibv_event_type event;
  void (*change)(TablesBuilder&, PortIndex);
  bool (*is_told)(ibv_context*, const ibv_port_attr&);  // by the queries as well
};

[[nodiscard]] bool has_pkey(ibv_context* context, std::uint16_t pkey) {
  return ibv_get_pkey_index(context, 1, htobe16(pkey)) >= 0;
}
[[nodiscard]] bool has_gid(ibv_context* context, std::uint64_t interface) {
  ibv_gid_entry entry{};
  return ibv_query_gid_ex(context, 1, 0, &entry, 0) == 0 &&
         entry.gid.global.interface_id == htobe64(interface);
}

constexpr auto kRows = std::to_array<Row>({
    {IBV_EVENT_PORT_ERR,
     [](TablesBuilder& builder,                                     PortIndex port) { builder.set_link_state(port, PortState::Down); },
     [](ibv_context*,                                                                                                                                            const ibv_port_attr& port) {
       return port.state == IBV_PORT_DOWN && port.phys_state != 5;
     }                                                                                                                                                                                                              },
    {IBV_EVENT_PORT_ACTIVE,
     [](TablesBuilder& builder,                                     PortIndex port) {
       builder.set_link_state(port, PortState::Active);
     },                                                                                                  [](ibv_context*,         const ibv_port_attr& port) {
       return port.state == IBV_PORT_ACTIVE && port.phys_state == 5;
     }                                                                           },
    {IBV_EVENT_LID_CHANGE,
     [](TablesBuilder& builder,                                     PortIndex port) { builder.set_lid(port, Lid{0x44}, 2); },
     [](ibv_context*,                                                                                                                                            const ibv_port_attr& port) { return port.lid == 0x44 && port.lmc == 2; }},
    {IBV_EVENT_PKEY_CHANGE,
     [](TablesBuilder& builder,                                     PortIndex port) {
       builder.set_pkeys(port, std::array{PKey{0x8123}});
     },                                                                                                  [](ibv_context* context, const ibv_port_attr& port) {
       return port.pkey_tbl_len == 1 && has_pkey(context, 0x8123) && !has_pkey(context, 0xFFFF);
     }                                                                   },
    {IBV_EVENT_GID_CHANGE,
     [](TablesBuilder& builder,                                     PortIndex port) {
       builder.set_gids(port, std::array{
                                  Gid{ weft::kDefaultGidPrefix,                                                      Guid{0x5678}}});
     },                                                                                                        [](ibv_context* context,                                                                                                                                const ibv_port_attr&) { return has_gid(context, 0x5678); }                                                                                                                                                                                                  },
    {IBV_EVENT_SM_CHANGE,
     [](TablesBuilder& builder, PortIndex port) {
       builder.set_subnet_manager(port, Lid{0x99}, weft::ServiceLevel{3});
     },                                                 [](ibv_context*,                                                                                                                                  const ibv_port_attr& port) {
       return port.sm_lid == 0x99 && port.sm_sl == 3;
     }                                                                                                                                                                                                    },
    {IBV_EVENT_CLIENT_REREGISTER,
     [](TablesBuilder& builder, PortIndex port) { builder.request_reregistration(port); },
     [](ibv_context*,                                                                                                                                  const ibv_port_attr& port) {
       return (port.port_cap_flags & IBV_PORT_CLIENT_REG_SUP) != 0;
     }                                                                                                                                                },
});

[[nodiscard]] std::string next_event(ibv_context* context, std::uint8_t expected_port) {
  constexpr int kWaitLimit = 10'000;  // ms
  pollfd readable{.fd = context->async_fd, .events = POLLIN, .revents = 0};
  if (poll(&readable, 1, kWaitLimit) != 1) {
    return "nothing";
  }
  ibv_async_event event{};
  EXPECT_EQ(ibv_get_async_event(context, &event), 0);
  EXPECT_EQ(event.element.port_num, expected_port);
  ibv_ack_async_event(&event);
  return ibv_event_type_str(event.event_type);
}

/// One test: a program is attached once, and the end of its daemon is for good.
TEST(PortEvents, AreSeenExactlyUntilTheDeviceFails) {
  TablesDaemon daemon;
  setenv("WEFT_RUN", daemon.run.c_str(), 1);
  setenv("WEFT_FABRIC", "test", 1);
  setenv("WEFT_HOST", "h1", 1);
  std::thread doorman{[&] { daemon.admit_program(); }};
  ibv_device** const list = ibv_get_device_list(nullptr);
  doorman.join();
  daemon.refuse_others();
  ASSERT_TRUE(list != nullptr && list[0] != nullptr);
  ibv_context* const context = ibv_open_device(list[0]);
  ASSERT_NE(context, nullptr);
  ibv_pd* const pd = ibv_alloc_pd(context);
  ibv_cq* const cq = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = cq;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = attributes.cap.max_recv_wr = 1;
  ibv_qp* const qp = ibv_create_qp(pd, &attributes);  // from now on a thread hears the daemon
  ASSERT_NE(qp, nullptr);
  for (const Row& row : kRows) {
    row.change(daemon.builder, daemon.own_port);
    daemon.send_tables();
    EXPECT_EQ(next_event(context, 1), ibv_event_type_str(row.event));
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
    EXPECT_TRUE(row.is_told(context, port)) << ibv_event_type_str(row.event);
  }
  daemon.control = {};
  EXPECT_EQ(next_event(context, 0), ibv_event_type_str(IBV_EVENT_DEVICE_FATAL));
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(context), 0);
  ibv_free_device_list(list);
}

}  // namespace
