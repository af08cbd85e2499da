#pragma once

#include "wire/aeth.h"
#include "wire/atomic_ack_eth.h"
#include "wire/atomic_eth.h"
#include "wire/bth.h"
#include "wire/cm/dreq.h"
#include "wire/cm/lap.h"
#include "wire/cm/rdma_cm_header.h"
#include "wire/cm/rej.h"
#include "wire/cm/rep.h"
#include "wire/cm/req.h"
#include "wire/cm/sidr.h"
#include "wire/deth.h"
#include "wire/ethernet.h"
#include "wire/feth.h"
#include "wire/grh.h"
#include "wire/ieth.h"
#include "wire/immdt.h"
#include "wire/ipoib/arp.h"
#include "wire/ipoib/encapsulation.h"
#include "wire/ipoib/hardware_address.h"
#include "wire/ipoib/neighbor_discovery.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/iscsi/async_message.h"
#include "wire/iscsi/basic_header.h"
#include "wire/iscsi/data.h"
#include "wire/iscsi/login.h"
#include "wire/iscsi/logout.h"
#include "wire/iscsi/nop.h"
#include "wire/iscsi/reject.h"
#include "wire/iscsi/scsi_command.h"
#include "wire/iscsi/snack.h"
#include "wire/iscsi/task_management.h"
#include "wire/iscsi/text.h"
#include "wire/iser/header.h"
#include "wire/iser/private_data.h"
#include "wire/iwpm/peer_message.h"
#include "wire/lrh.h"
#include "wire/mad/class_port_info.h"
#include "wire/mad/forwarding_tables.h"
#include "wire/mad/inform_info.h"
#include "wire/mad/mad.h"
#include "wire/mad/mc_member_record.h"
#include "wire/mad/multi_path_record.h"
#include "wire/mad/node_info.h"
#include "wire/mad/notice.h"
#include "wire/mad/notice_details.h"
#include "wire/mad/path_record.h"
#include "wire/mad/perf_mad.h"
#include "wire/mad/port_counters.h"
#include "wire/mad/port_details.h"
#include "wire/mad/port_info.h"
#include "wire/mad/port_info_extended.h"
#include "wire/mad/port_samples.h"
#include "wire/mad/port_tables.h"
#include "wire/mad/rmpp.h"
#include "wire/mad/sa_mad.h"
#include "wire/mad/sa_table_records.h"
#include "wire/mad/service_record.h"
#include "wire/mad/sm_info.h"
#include "wire/mad/smp.h"
#include "wire/mad/switch_info.h"
#include "wire/mad/trace_record.h"
#include "wire/mad/vendor_mad.h"
#include "wire/opa/mac_messages.h"
#include "wire/opa/mad_packet_16b.h"
#include "wire/opa/vema_mad.h"
#include "wire/opa/vesw_port_counters.h"
#include "wire/opa/vesw_port_info.h"
#include "wire/protection_tuple.h"
#include "wire/rdeth.h"
#include "wire/reth.h"
#include "wire/sriov/tunnel_headers.h"
#include "wire/srp/boot_table.h"
#include "wire/srp/descriptors.h"
#include "wire/srp/device_management.h"
#include "wire/srp/login.h"
#include "wire/srp/requests.h"
#include "wire/srp/responses.h"
#include "wire/tcp.h"
#include "wire/udp.h"
#include "wire/vlan.h"
#include "wire/xrceth.h"

/// All structures with a layout. Adding one here adds its round-trip and reserved-bits tests, its
/// golden layout (tests/golden/layouts.txt) and its fuzzer. What has no layout of this kind has
/// tests of its own: little-endian words (wire/opa/packet_16b.h) and messages of netlink.
namespace weft::wire {

template <class... Types>
struct TypeList {
  /// Calls visit.template operator()<T>() for each type, in order.
  template <class Visit>
  static constexpr void for_each(Visit visit) {
    (visit.template operator()<Types>(), ...);
  }
  static constexpr std::size_t kCount = sizeof...(Types);
};

using AllWireTypes = TypeList<
    Lrh, Grh, Bth, Rdeth, Deth, Xrceth, Feth, Reth, AtomicEth, Aeth, AtomicAckEth, ImmDt, Ieth,
    Ethernet, Vlan, Ipv4, Ipv6, Udp, Tcp, MadHeader, Mad, SmpLidRouted, SmpDirectedHeader,
    SmpDirected, NodeInfo, NodeDescription, SwitchInfo, PortInfo, GuidInfo, PKeyTable,
    SlToVlMappingTable, VlArbitrationEntry, VlArbitrationTable, LinearForwardingTable,
    RandomForwardingEntry, RandomForwardingTable, MulticastForwardingTable, SmInfo, VendorDiag,
    LedInfo, PortInfoExtended, ClassPortInfo, Notice, SaNotice, GidNoticeDetails,
    LinkStateNoticeDetails, PortNoticeDetails, CapabilityNoticeDetails,
    SystemImageGuidNoticeDetails, BadMKeyNoticeDetails, BadKeyNoticeDetails,
    SwitchBadPKeyNoticeDetails, InformInfo, PerfMad, PortSamplesControl, PortSamplesResult,
    PortSamplesResultExtended, PortCounters, PortCountersExtended, PortRcvErrorDetails,
    PortXmitDiscardDetails, PortDataSl, Rmpp, VendorMad, SaHeader, SaMad, NodeRecord,
    PortInfoRecord, SlToVlMappingTableRecord, SwitchInfoRecord, LinearForwardingTableRecord,
    RandomForwardingTableRecord, MulticastForwardingTableRecord, SmInfoRecord, LinkRecord,
    GuidInfoRecord, ServiceRecord, ServiceAssociationRecord, PKeyTableRecord, PathRecord,
    VlArbitrationTableRecord, McMemberRecord, TraceRecord, MultiPathRecord, InformInfoRecord, Req,
    Mra, Rej, Rep, Rtu, Dreq, Drep, Lap, Apr, SidrReq, SidrRep, RdmaCmHeader, IpoibEncapsulation,
    IpoibHardwareAddress, IpoibArp, NeighborDiscovery, IpoibLinkLayerOption, IwpmMessage,
    IwpmRequest, VeswInfo, PerVeswPortInfo, VeswPortInfo, MacTableHeader, MacTableEntry,
    MacListHeader, VeswPortSummaryCounters, VeswPortErrorCounters, VemaMad, VeswPortTrap,
    Opa16bManagementHeader, VemaNotice, OpaClassPortInfo, TunnelAddressVector, TunnelSendHeader,
    TunnelReceiveHeader, TunnelSend, TunnelReceive, SrpLoginReq, SrpLoginReqRdmaCm, SrpLoginRsp,
    SrpLoginRej, SrpILogout, SrpTLogout, SrpTskMgmt, SrpCmd, SrpRsp, SrpResponseData, SrpCredReq,
    SrpCredRsp, SrpAerReq, SrpAerRsp, SrpDirectDescriptor, SrpIndirectDescriptor,
    SrpImmediateDescriptor, DevMgtMad, IoUnitInfo, IoControllerProfile, IocServiceEntry,
    ServiceEntries, SrpBootTable, SrpBootScsiPart, SrpBootSrpPart, SrpBootIbPart,
    iscsi::BasicHeader, iscsi::AdditionalHeader, iscsi::ScsiCommand, iscsi::ScsiResponse,
    iscsi::TaskManagementRequest, iscsi::TaskManagementResponse, iscsi::DataOut, iscsi::DataIn,
    iscsi::R2t, iscsi::AsyncMessage, iscsi::TextRequest, iscsi::TextResponse, iscsi::LoginRequest,
    iscsi::LoginResponse, iscsi::LogoutRequest, iscsi::LogoutResponse, iscsi::SnackRequest,
    iscsi::Reject, iscsi::NopOut, iscsi::NopIn, ProtectionTuple, iser::ControlHeader, iser::Hello,
    iser::HelloReply, iser::PrivateData>;

}  // namespace weft::wire
