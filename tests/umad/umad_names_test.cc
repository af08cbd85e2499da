// Names and envelopes of the umad API: what needs no fabric.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/umad.h>
#include <infiniband/umad_cm.h>
#include <infiniband/umad_sa.h>
#include <infiniband/umad_sm.h>
#include <infiniband/umad_str.h>
#include <infiniband/umad_types.h>

#include <array>
#include <cstddef>

namespace {

TEST(UmadNames, AreThoseOfTheSpecification) {
  EXPECT_STREQ(umad_class_str(UMAD_CLASS_SUBN_DIRECTED_ROUTE), "Subn");
  EXPECT_STREQ(umad_class_str(0x31), "Vendor");
  EXPECT_STREQ(umad_class_str(0x2A), "Application");
  EXPECT_STREQ(umad_class_str(0x60), "<unknown>");
  EXPECT_STREQ(umad_method_str(UMAD_CLASS_SUBN_ADM, UMAD_SA_METHOD_GET_TABLE), "GetTable");
  EXPECT_STREQ(umad_method_str(UMAD_CLASS_PERF_MGMT, UMAD_METHOD_GET_RESP), "GetResp");
  EXPECT_STREQ(umad_attribute_str(UMAD_CLASS_SUBN_LID_ROUTED, htons(UMAD_SM_ATTR_PORT_INFO)),
               "PortInfo");
  EXPECT_STREQ(umad_attribute_str(UMAD_CLASS_SUBN_ADM, htons(UMAD_SA_ATTR_PATH_REC)), "PathRecord");
  EXPECT_STREQ(umad_attribute_str(UMAD_CLASS_CM, htons(UMAD_CM_ATTR_REQ)), "ConnectRequest");
  EXPECT_STREQ(umad_attribute_str(UMAD_CLASS_PERF_MGMT, htons(UMAD_ATTR_CLASS_PORT_INFO)),
               "Class Port Info");
  EXPECT_STREQ(umad_common_mad_status_str(htons(UMAD_STATUS_BUSY)), "Busy");
  EXPECT_STREQ(umad_common_mad_status_str(htons(UMAD_STATUS_BAD_VERSION)), "Bad Version");
  EXPECT_STREQ(umad_common_mad_status_str(0), "Success");
  EXPECT_STREQ(umad_sa_mad_status_str(htons(UMAD_SA_STATUS_NO_RECORDS << 8)), "No Records");
}

TEST(UmadEnvelope, KeepsAddressesInTheNetworksOrder) {
  alignas(ib_user_mad) std::array<std::byte, sizeof(ib_user_mad) + 256> memory{};
  auto* const umad = static_cast<ib_user_mad*>(static_cast<void*>(memory.data()));
  EXPECT_EQ(umad_size(), 64U);
  EXPECT_EQ(umad_get_mad(umad), umad->data);
  umad_set_addr(umad, 7, 1, 2, static_cast<int>(UMAD_QKEY));
  EXPECT_EQ(umad->addr.lid, htons(7));
  EXPECT_EQ(umad->addr.qpn, htonl(1));
  EXPECT_EQ(umad->addr.qkey, htonl(UMAD_QKEY));
  EXPECT_EQ(umad->addr.sl, 2);
  umad_set_pkey(umad, 3);
  EXPECT_EQ(umad_get_pkey(umad), 3);
  ib_mad_addr_t route{};
  route.gid[15] = 9;
  route.flow_label = 0x12345;
  route.hop_limit = 64;
  umad_set_grh(umad, &route);
  EXPECT_EQ(umad->addr.grh_present, 1);
  EXPECT_EQ(umad->addr.gid[15], 9);
  EXPECT_EQ(umad->addr.flow_label, htonl(0x12345));
  umad_set_grh(umad, nullptr);
  EXPECT_EQ(umad->addr.grh_present, 0);
}

TEST(UmadDeviceList, IsSortedByName) {
  umad_device_node c{.next = nullptr, .ca_name = "c"};
  umad_device_node a{.next = &c, .ca_name = "a"};
  umad_device_node b{.next = &a, .ca_name = "b"};
  umad_device_node* head = &b;
  EXPECT_EQ(umad_sort_ca_device_list(&head, 0), 0);
  EXPECT_EQ(head, &a);
  EXPECT_EQ(a.next, &b);
  EXPECT_EQ(b.next, &c);
  EXPECT_EQ(c.next, nullptr);
  EXPECT_NE(umad_sort_ca_device_list(&head, 2), 0);
}

}  // namespace
