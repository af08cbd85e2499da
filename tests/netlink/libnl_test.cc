// Programs with libnl: its sockets, its requests, its callbacks.

#include <netlink/attr.h>
#include <netlink/cache.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <netlink/socket.h>

#include <algorithm>
#include <memory>

#include "netlink_host.h"

namespace weft {
namespace {

struct FreeSocket {
  void operator()(nl_sock* socket) const { nl_socket_free(socket); }
};
using NlSocket = std::unique_ptr<nl_sock, FreeSocket>;

class Libnl : public NetlinkHost {
 protected:
  static NlSocket connected() {
    NlSocket socket{nl_socket_alloc()};
    EXPECT_EQ(nl_connect(socket.get(), NETLINK_RDMA), 0);
    return socket;
  }
  /// The names of devices in one message of NLDEV.
  static int take_name(nl_msg* message, void* names) {
    const nlattr* const name = nlmsg_find_attr(nlmsg_hdr(message), 0, RDMA_NLDEV_ATTR_DEV_NAME);
    if (name != nullptr) {
      static_cast<std::vector<std::string>*>(names)->emplace_back(nla_get_string(name));
    }
    return NL_OK;
  }
};

TEST_F(Libnl, DumpsDevices) {
  const NlSocket socket = connected();
  std::vector<std::string> names;
  nl_socket_modify_cb(socket.get(), NL_CB_VALID, NL_CB_CUSTOM, take_name, &names);
  ASSERT_GT(nl_send_simple(socket.get(), RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET),
                           NLM_F_DUMP, nullptr, 0),
            0);
  EXPECT_EQ(nl_recvmsgs_default(socket.get()), 0);
  EXPECT_EQ(names, std::vector<std::string>{"weft0"});
  EXPECT_EQ(nl_socket_get_local_port(socket.get()) & 0x3F'FFFF,
            static_cast<std::uint32_t>(getpid()) & 0x3F'FFFF)
      << "libnl chooses addresses by the process's number";
}

TEST_F(Libnl, HearsErrorsAndAcknowledgements) {
  const NlSocket socket = connected();
  // One device by no index: -EINVAL.
  ASSERT_GT(nl_send_simple(socket.get(), RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET),
                           NLM_F_ACK, nullptr, 0),
            0);
  EXPECT_EQ(nl_wait_for_ack(socket.get()), -NLE_INVAL);
  ASSERT_GT(nl_send_simple(socket.get(), RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET),
                           NLM_F_ACK, nullptr, 0),
            0);
  EXPECT_EQ(nl_recvmsgs_default(socket.get()), 0);
  EXPECT_EQ(nl_wait_for_ack(socket.get()), 0);
}

TEST_F(Libnl, JoinsGroupsAndSendsToPeers) {
  const NlSocket listener = connected();
  nl_socket_disable_seq_check(listener.get());
  ASSERT_EQ(nl_socket_add_membership(listener.get(), RDMA_NL_GROUP_LS), 0);
  const NlSocket sender = connected();
  nl_socket_set_peer_port(sender.get(), nl_socket_get_local_port(listener.get()));
  ASSERT_GT(nl_send_simple(sender.get(), RDMA_NL_GET_TYPE(RDMA_NL_LS, 0), 0, nullptr, 0), 0);
  int type = 0;
  nl_socket_modify_cb(
      listener.get(), NL_CB_VALID, NL_CB_CUSTOM,
      [](nl_msg* message, void* to) {
        *static_cast<int*>(to) = nlmsg_hdr(message)->nlmsg_type;
        return static_cast<int>(NL_STOP);
      },
      &type);
  ASSERT_TRUE(is_readable(nl_socket_get_fd(listener.get())));
  EXPECT_EQ(nl_recvmsgs_default(listener.get()), 0);
  EXPECT_EQ(type, RDMA_NL_GET_TYPE(RDMA_NL_LS, 0));
  EXPECT_EQ(nl_socket_drop_membership(listener.get(), RDMA_NL_GROUP_LS), 0);
}

TEST_F(Libnl, OfRoutesAsksTheKernel) {
  const NlSocket socket{nl_socket_alloc()};
  ASSERT_EQ(nl_connect(socket.get(), NETLINK_ROUTE), 0);
  nl_cache* cache{};
  ASSERT_EQ(rtnl_link_alloc_cache(socket.get(), AF_UNSPEC, &cache), 0);
  rtnl_link* const loopback = rtnl_link_get_by_name(cache, "lo");
  EXPECT_NE(loopback, nullptr);
  rtnl_link_put(loopback);
  nl_cache_free(cache);
}

}  // namespace
}  // namespace weft
