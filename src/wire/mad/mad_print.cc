#include "wire/mad/mad_print.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include "wire/cm/cm_codes.h"
#include "wire/cm/dreq.h"
#include "wire/cm/lap.h"
#include "wire/cm/rej.h"
#include "wire/cm/rep.h"
#include "wire/cm/req.h"
#include "wire/cm/sidr.h"
#include "wire/mad/class_port_info.h"
#include "wire/mad/forwarding_tables.h"
#include "wire/mad/inform_info.h"
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

namespace weft::wire {
namespace {

/// How an attribute with a layout of its own is printed.
struct AttributePrinter {
  std::uint16_t id{};
  std::size_t bytes{};
  PrintedHeader (*print)(ByteSpan){};
};

template <WireType T>
[[nodiscard]] PrintedHeader print_as(ByteSpan data) {
  return printed_header(unpack<T>(data.first<kSizeOf<T>>()));
}

template <WireType T>
[[nodiscard]] constexpr AttributePrinter row(auto id) {
  return {.id = static_cast<std::uint16_t>(id), .bytes = kSizeOf<T>, .print = &print_as<T>};
}

constexpr std::array kSmpAttributes = {
    row<Notice>(SmpAttribute::Notice),
    row<NodeDescription>(SmpAttribute::NodeDescription),
    row<NodeInfo>(SmpAttribute::NodeInfo),
    row<SwitchInfo>(SmpAttribute::SwitchInfo),
    row<GuidInfo>(SmpAttribute::GuidInfo),
    row<PortInfo>(SmpAttribute::PortInfo),
    row<PKeyTable>(SmpAttribute::PKeyTable),
    row<SlToVlMappingTable>(SmpAttribute::SlToVlMappingTable),
    row<VlArbitrationTable>(SmpAttribute::VlArbitrationTable),
    row<LinearForwardingTable>(SmpAttribute::LinearForwardingTable),
    row<RandomForwardingTable>(SmpAttribute::RandomForwardingTable),
    row<MulticastForwardingTable>(SmpAttribute::MulticastForwardingTable),
    row<SmInfo>(SmpAttribute::SmInfo),
    row<VendorDiag>(SmpAttribute::VendorDiag),
    row<LedInfo>(SmpAttribute::LedInfo),
    row<PortInfoExtended>(SmpAttribute::PortInfoExtended),
};

constexpr std::array kSaAttributes = {
    row<ClassPortInfo>(SaAttribute::ClassPortInfo),
    row<SaNotice>(SaAttribute::Notice),
    row<InformInfo>(SaAttribute::InformInfo),
    row<NodeRecord>(SaAttribute::NodeRecord),
    row<PortInfoRecord>(SaAttribute::PortInfoRecord),
    row<SlToVlMappingTableRecord>(SaAttribute::SlToVlMappingTableRecord),
    row<SwitchInfoRecord>(SaAttribute::SwitchInfoRecord),
    row<LinearForwardingTableRecord>(SaAttribute::LinearForwardingTableRecord),
    row<RandomForwardingTableRecord>(SaAttribute::RandomForwardingTableRecord),
    row<MulticastForwardingTableRecord>(SaAttribute::MulticastForwardingTableRecord),
    row<SmInfoRecord>(SaAttribute::SmInfoRecord),
    row<LinkRecord>(SaAttribute::LinkRecord),
    row<GuidInfoRecord>(SaAttribute::GuidInfoRecord),
    row<ServiceRecord>(SaAttribute::ServiceRecord),
    row<PKeyTableRecord>(SaAttribute::PKeyTableRecord),
    row<PathRecord>(SaAttribute::PathRecord),
    row<VlArbitrationTableRecord>(SaAttribute::VlArbitrationTableRecord),
    row<McMemberRecord>(SaAttribute::McMemberRecord),
    row<TraceRecord>(SaAttribute::TraceRecord),
    row<MultiPathRecord>(SaAttribute::MultiPathRecord),
    row<ServiceAssociationRecord>(SaAttribute::ServiceAssociationRecord),
    row<InformInfoRecord>(SaAttribute::InformInfoRecord),
};

constexpr std::array kPerfAttributes = {
    row<ClassPortInfo>(PerfAttribute::ClassPortInfo),
    row<PortSamplesControl>(PerfAttribute::PortSamplesControl),
    row<PortSamplesResult>(PerfAttribute::PortSamplesResult),
    row<PortCounters>(PerfAttribute::PortCounters),
    row<PortCountersExtended>(PerfAttribute::PortCountersExtended),
    row<PortSamplesResultExtended>(PerfAttribute::PortSamplesResultExtended),
    row<PortRcvErrorDetails>(PerfAttribute::PortRcvErrorDetails),
    row<PortXmitDiscardDetails>(PerfAttribute::PortXmitDiscardDetails),
    row<PortDataSl>(PerfAttribute::PortXmitDataSl),
    row<PortDataSl>(PerfAttribute::PortRcvDataSl),
};

constexpr std::array kCmAttributes = {
    row<Req>(CmAttribute::Req),         row<Mra>(CmAttribute::Mra),
    row<Rej>(CmAttribute::Rej),         row<Rep>(CmAttribute::Rep),
    row<Rtu>(CmAttribute::Rtu),         row<Dreq>(CmAttribute::Dreq),
    row<Drep>(CmAttribute::Drep),       row<SidrReq>(CmAttribute::SidrReq),
    row<SidrRep>(CmAttribute::SidrRep), row<Lap>(CmAttribute::Lap),
    row<Apr>(CmAttribute::Apr),         row<ClassPortInfo>(kAttributeClassPortInfo),
};

[[nodiscard]] const AttributePrinter* find(std::span<const AttributePrinter> table,
                                           std::uint16_t id) {
  const auto found = std::ranges::find(table, id, &AttributePrinter::id);
  return found == table.end() ? nullptr : &*found;
}

/// Details of a subnet management notice, if its trap is known.
[[nodiscard]] std::optional<PrintedHeader> printed_details(const Notice& notice) {
  if (!notice.is_generic) {
    return std::nullopt;
  }
  switch (static_cast<Trap>(notice.trap_number)) {
    case Trap::GidInService:
    case Trap::GidOutOfService:
    case Trap::MulticastGroupCreated:
    case Trap::MulticastGroupDeleted:
      return print_as<GidNoticeDetails>(notice.details);
    case Trap::LinkStateChange:
      return print_as<LinkStateNoticeDetails>(notice.details);
    case Trap::LocalLinkIntegrity:
    case Trap::ExcessiveBufferOverrun:
    case Trap::FlowControlUpdate:
      return print_as<PortNoticeDetails>(notice.details);
    case Trap::CapabilityMaskChange:
      return print_as<CapabilityNoticeDetails>(notice.details);
    case Trap::SystemImageGuidChange:
      return print_as<SystemImageGuidNoticeDetails>(notice.details);
    case Trap::BadMKey:
      return print_as<BadMKeyNoticeDetails>(notice.details);
    case Trap::BadPKey:
    case Trap::BadQKey:
      return print_as<BadKeyNoticeDetails>(notice.details);
    case Trap::BadPKeyAtSwitch:
      return print_as<SwitchBadPKeyNoticeDetails>(notice.details);
  }
  return std::nullopt;
}

/// Removes a field that is printed in decoded form instead.
void drop(PrintedHeader& header, std::string_view field) {
  std::erase_if(header.fields, [field](const PrintedField& each) { return each.name == field; });
}

class MadPrinter {
 public:
  explicit MadPrinter(std::span<const std::byte, kMadBytes> mad) : mad_(mad) {}

  [[nodiscard]] std::vector<PrintedHeader> print() {
    const auto header = unpack<MadHeader>(mad_.first<kSizeOf<MadHeader>>());
    constexpr std::size_t kSmpDataAt = 64;
    if (header.mgmt_class == ManagementClass::SubnDirectedRoute) {
      headers_.push_back(print_as<SmpDirected>(mad_));
      add_attribute(kSmpAttributes, header.attribute_id, kSmpDataAt, kSmpDataBytes, "SMPData");
    } else if (header.mgmt_class == ManagementClass::SubnLidRouted) {
      headers_.push_back(print_as<SmpLidRouted>(mad_));
      add_attribute(kSmpAttributes, header.attribute_id, kSmpDataAt, kSmpDataBytes, "SMPData");
    } else if (header.mgmt_class == ManagementClass::SubnAdm) {
      add_sa();
    } else if (header.mgmt_class == ManagementClass::Perf) {
      headers_.push_back(print_as<PerfMad>(mad_));
      add_attribute(kPerfAttributes, header.attribute_id, kPerfDataAt, kPerfDataBytes, "PerfData");
    } else if (header.mgmt_class == ManagementClass::ComMgt) {
      headers_.push_back(printed_header(header));
      add_attribute(kCmAttributes, header.attribute_id, kSizeOf<MadHeader>, kCmDataBytes, "");
    } else if (is_vendor_with_oui(header.mgmt_class)) {
      headers_.push_back(print_as<VendorMad>(mad_));
    } else {
      headers_.push_back(printed_header(header));
    }
    return std::move(headers_);
  }

 private:
  void add_attribute(std::span<const AttributePrinter> table, std::uint16_t id, std::size_t at,
                     std::size_t room, std::string_view data_field) {
    const AttributePrinter* const attribute = find(table, id);
    if (attribute == nullptr || attribute->bytes > room) {
      return;
    }
    drop(headers_.back(), data_field);
    headers_.push_back(attribute->print(mad_.subspan(at)));
    if (attribute->print == &print_as<Notice>) {
      add_details(mad_.subspan(at));
    }
  }

  void add_details(ByteSpan data) {
    if (auto details = printed_details(unpack<Notice>(data.first<kSizeOf<Notice>>()))) {
      drop(headers_.back(), "DataDetails");
      headers_.push_back(std::move(*details));
    }
  }

  /// Records may span segments; prints those contained in this one.
  void add_sa() {
    const auto sa = unpack<SaHeader>(mad_.first<kSizeOf<SaHeader>>());
    headers_.push_back(print_as<SaMad>(mad_));
    const AttributePrinter* const attribute = find(kSaAttributes, sa.header.attribute_id);
    const bool is_table = sa.rmpp.is_active;
    if (attribute == nullptr || (is_table && sa.rmpp.type != RmppType::Data)) {
      return;
    }
    std::size_t at = 0;
    std::size_t end = attribute->bytes;
    std::size_t step = attribute->bytes;
    if (is_table) {
      step = std::size_t{sa.attribute_offset} * 8;
      if (step < attribute->bytes || sa.rmpp.data1 == 0) {
        return;
      }
      end = kSaDataBytes;
      if (sa.rmpp.is_last) {
        const std::size_t payload = std::max<std::size_t>(sa.rmpp.data2, kSaHeaderBytes);
        end = std::min(end, payload - kSaHeaderBytes);
      }
      const std::size_t before = std::size_t{sa.rmpp.data1 - 1} * kSaDataBytes;
      at = (step - before % step) % step;
    }
    const ByteSpan data = mad_.subspan(kSizeOf<SaHeader>);
    for (; at + attribute->bytes <= end; at += step) {
      drop(headers_.front(), "AdminData");
      headers_.push_back(attribute->print(data.subspan(at)));
      if (attribute->print == &print_as<SaNotice>) {
        add_details(data.subspan(at));
      }
    }
  }

  std::span<const std::byte, kMadBytes> mad_;
  std::vector<PrintedHeader> headers_;
};

struct Code {
  std::string_view field;
  std::uint64_t value{};
  std::string_view meaning;
};

constexpr auto kCodes = std::to_array<Code>({
    {"NodeType",              1,      "channel adapter"           },
    {"NodeType",              2,      "switch"                    },
    {"NodeType",              3,      "router"                    },
    {"PortState",             1,      "Down"                      },
    {"PortState",             2,      "Init"                      },
    {"PortState",             3,      "Armed"                     },
    {"PortState",             4,      "Active"                    },
    {"PortPhysicalState",     1,      "Sleep"                     },
    {"PortPhysicalState",     2,      "Polling"                   },
    {"PortPhysicalState",     3,      "Disabled"                  },
    {"PortPhysicalState",     4,      "Training"                  },
    {"PortPhysicalState",     5,      "LinkUp"                    },
    {"PortPhysicalState",     6,      "ErrorRecovery"             },
    {"SMState",               0,      "not active"                },
    {"SMState",               1,      "discovering"               },
    {"SMState",               2,      "standby"                   },
    {"SMState",               3,      "master"                    },
    {"TransportServiceType",  0,      "RC"                        },
    {"TransportServiceType",  1,      "UC"                        },
    {"TransportServiceType",  2,      "RD"                        },
    {"TransportServiceType",  3,      "extended"                  },
    {"ExtendedTransportType", 1,      "XRC"                       },
    {"MessageMRAed",          0,      "REQ"                       },
    {"MessageMRAed",          1,      "REP"                       },
    {"MessageMRAed",          2,      "LAP"                       },
    {"MessageREJected",       0,      "REQ"                       },
    {"MessageREJected",       1,      "REP"                       },
    {"MessageREJected",       2,      "none"                      },
    {"TrapNumber",            64,     "GID in service"            },
    {"TrapNumber",            65,     "GID out of service"        },
    {"TrapNumber",            66,     "multicast group created"   },
    {"TrapNumber",            67,     "multicast group deleted"   },
    {"TrapNumber",            128,    "link state change"         },
    {"TrapNumber",            129,    "local link integrity"      },
    {"TrapNumber",            130,    "excessive buffer overrun"  },
    {"TrapNumber",            131,    "flow control update"       },
    {"TrapNumber",            144,    "capability or local change"},
    {"TrapNumber",            145,    "system image GUID change"  },
    {"TrapNumber",            256,    "bad M_Key"                 },
    {"TrapNumber",            257,    "bad P_Key"                 },
    {"TrapNumber",            258,    "bad Q_Key"                 },
    {"TrapNumber",            259,    "bad P_Key at switch"       },
    {"TrapNumber",            0xFFFF, "all"                       },
});

/// Fields that contain an MTU code.
constexpr auto kMtuFields =
    std::to_array<std::string_view>({"NeighborMTU", "MTUCap", "Mtu", "PathPacketPayloadMTU"});

constexpr auto kCounters = std::to_array<std::string_view>({
    "LID",
    "MasterSMLID",
    "LIDADDR",
    "LIDADDR1",
    "LIDADDR2",
    "DRSLID",
    "SWLIDADDR",
    "IssuerLID",
    "FromLID",
    "ToLID",
    "LIDRangeBegin",
    "LIDRangeEnd",
    "RedirectLID",
    "TrapLID",
    "NoticeCount",
    "LinearFDBCap",
    "RandomFDBCap",
    "MulticastFDBCap",
    "LinearFDBTop",
    "LIDsPerPort",
    "PartitionCap",
    "PartitionEnforcementCap",
    "M_KeyLeasePeriod",
    "M_KeyViolations",
    "P_KeyViolations",
    "Q_KeyViolations",
    "MaxCreditHint",
    "LinkRoundTripLatency",
    "ActCount",
    "BlockNum",
    "ServiceLease",
    "AttributeOffset",
    "SymbolErrorCounter",
    "LinkErrorRecoveryCounter",
    "LinkDownedCounter",
    "PortRcvErrors",
    "PortRcvRemotePhysicalErrors",
    "PortRcvSwitchRelayErrors",
    "PortXmitDiscards",
    "PortXmitConstraintErrors",
    "PortRcvConstraintErrors",
    "LocalLinkIntegrityErrors",
    "ExcessiveBufferOverrunErrors",
    "QP1Dropped",
    "VL15Dropped",
    "PortXmitData",
    "PortRcvData",
    "PortXmitPkts",
    "PortRcvPkts",
    "PortXmitWait",
    "PortUnicastXmitPkts",
    "PortUnicastRcvPkts",
    "PortMulticastXmitPkts",
    "PortMulticastRcvPkts",
    "SampleStart",
    "SampleInterval",
    "Counter",
    "Data1",
    "Data2",
    "TrapNumber",
    "Reason",
    "PrimaryLocalLID",
    "PrimaryRemoteLID",
    "AlternateLocalLID",
    "AlternateRemoteLID",
    "StartingPSN",
    "SourcePort",
});

}  // namespace

std::vector<PrintedHeader> printed_mad(ByteSpan payload) {
  if (payload.size() >= kMadBytes) {
    return MadPrinter{payload.first<kMadBytes>()}.print();
  }
  if (payload.size() >= kSizeOf<MadHeader>) {
    return {print_as<MadHeader>(payload)};
  }
  return {};
}

std::string_view attribute_code_meaning(std::string_view field, std::uint64_t value) {
  if (std::ranges::find(kMtuFields, field) != kMtuFields.end()) {
    static constexpr std::array<std::string_view, 6> kMtus = {"",     "256",  "512",
                                                              "1024", "2048", "4096"};
    return value < kMtus.size() ? kMtus[value] : std::string_view{};
  }
  if (field == "RMPPType") {
    return value == 0 ? std::string_view{} : name_of(static_cast<RmppType>(value));
  }
  if (field == "RMPPStatus") {
    return value == 0 ? std::string_view{} : name_of(static_cast<RmppStatus>(value));
  }
  if (field == "Reason") {
    return name_of(static_cast<RejectReason>(value));
  }
  if (field == "APStatus") {
    return name_of(static_cast<AprStatus>(value));
  }
  for (const Code& code : kCodes) {
    if (code.field == field && code.value == value) {
      return code.meaning;
    }
  }
  return {};
}

bool is_counter(std::string_view field) {
  return std::ranges::find(kCounters, field) != kCounters.end();
}

}  // namespace weft::wire
