#include "wire/mad/mad.h"

#include <fmt/format.h>

#include <span>

#include "wire/mad/smp.h"

namespace weft::wire {
namespace {

struct AttributeName {
  std::uint16_t id{};
  std::string_view name;
};

constexpr auto kCommonAttributes = std::to_array<AttributeName>({
    {kAttributeClassPortInfo, "ClassPortInfo"},
    {kAttributeNotice,        "Notice"       },
    {kAttributeInformInfo,    "InformInfo"   },
});

// IBTA vol 1 §15.2.5.
constexpr auto kSaAttributes = std::to_array<AttributeName>({
    {0x11, "NodeRecord"                    },
    {0x12, "PortInfoRecord"                },
    {0x13, "SLtoVLMappingTableRecord"      },
    {0x14, "SwitchInfoRecord"              },
    {0x15, "LinearForwardingTableRecord"   },
    {0x16, "RandomForwardingTableRecord"   },
    {0x17, "MulticastForwardingTableRecord"},
    {0x18, "SMInfoRecord"                  },
    {0x20, "LinkRecord"                    },
    {0x30, "GUIDInfoRecord"                },
    {0x31, "ServiceRecord"                 },
    {0x33, "P_KeyTableRecord"              },
    {0x35, "PathRecord"                    },
    {0x36, "VLArbitrationTableRecord"      },
    {0x38, "MCMemberRecord"                },
    {0x39, "TraceRecord"                   },
    {0x3A, "MultiPathRecord"               },
    {0x3B, "ServiceAssociationRecord"      },
    {0xF3, "InformInfoRecord"              },
});

// IBTA vol 1 §12.6, communication management messages.
constexpr auto kCmAttributes = std::to_array<AttributeName>({
    {0x10, "ConnectRequest"       },
    {0x11, "MsgRcptAck"           },
    {0x12, "ConnectReject"        },
    {0x13, "ConnectReply"         },
    {0x14, "ReadyToUse"           },
    {0x15, "DisconnectRequest"    },
    {0x16, "DisconnectReply"      },
    {0x17, "ServiceIDResReq"      },
    {0x18, "ServiceIDResReqResp"  },
    {0x19, "LoadAlternatePath"    },
    {0x1A, "AlternatePathResponse"},
});

// IBTA vol 1 §16.1.
constexpr auto kPerfAttributes = std::to_array<AttributeName>({
    {0x10, "PortSamplesControl"       },
    {0x11, "PortSamplesResult"        },
    {0x12, "PortCounters"             },
    {0x15, "PortRcvErrorDetails"      },
    {0x16, "PortXmitDiscardDetails"   },
    {0x1D, "PortCountersExtended"     },
    {0x1E, "PortSamplesResultExtended"},
    {0x36, "PortXmitDataSL"           },
    {0x37, "PortRcvDataSL"            },
});

// IBTA vol 1 §16.3.
constexpr auto kDevMgtAttributes = std::to_array<AttributeName>({
    {0x10, "IOUnitInfo"         },
    {0x11, "IOControllerProfile"},
    {0x12, "ServiceEntries"     },
    {0x20, "DiagnosticTimeout"  },
    {0x21, "PrepareToTest"      },
    {0x22, "TestDeviceOnce"     },
    {0x23, "TestDeviceLoop"     },
    {0x24, "DiagCode"           },
});

[[nodiscard]] std::string_view find(std::span<const AttributeName> table, std::uint16_t id) {
  for (const AttributeName& row : table) {
    if (row.id == id) {
      return row.name;
    }
  }
  return {};
}

/// Bits 2 to 4 of a status (IBTA vol 1 §13.4.7).
[[nodiscard]] std::string_view code_text(std::uint16_t status) {
  switch (status & kMadStatusCodeMask) {
    case 0:
      return {};
    case kMadStatusBadVersion:
      return "bad version";
    case kMadStatusMethodUnsupported:
      return "method not supported";
    case kMadStatusMethodAttributeUnsupported:
      return "method and attribute not supported together";
    case kMadStatusInvalidField:
      return "invalid field";
    default:
      return "reserved code";
  }
}

/// Bits 8 to 15 of an SA status (IBTA vol 1 §15.2.2, ERR codes).
[[nodiscard]] std::string_view sa_error_text(unsigned code) {
  static constexpr std::array<std::string_view, 9> kTexts = {
      "",        "no resources",       "invalid request", "no records",        "too many records",
      "bad GID", "too few components", "request denied",  "priority suggested"};
  return code < kTexts.size() ? kTexts[code] : "reserved SA error";
}

}  // namespace

std::string_view name_of(ManagementClass mgmt_class) {
  switch (mgmt_class) {
    case ManagementClass::SubnLidRouted:
      return "Subn LID routed";
    case ManagementClass::SubnAdm:
      return "SubnAdm";
    case ManagementClass::Perf:
      return "Perf";
    case ManagementClass::BoardManagement:
      return "BM";
    case ManagementClass::DevMgt:
      return "DevMgt";
    case ManagementClass::ComMgt:
      return "ComMgt";
    case ManagementClass::Snmp:
      return "SNMP";
    case ManagementClass::DevAdm:
      return "DevAdm";
    case ManagementClass::BootMgt:
      return "BootMgt";
    case ManagementClass::Bis:
      return "BIS";
    case ManagementClass::CongestionControl:
      return "CongestionControl";
    case ManagementClass::SubnDirectedRoute:
      return "Subn directed route";
  }
  const auto number = static_cast<unsigned>(mgmt_class);
  const bool is_vendor = (number >= 0x09 && number <= 0x0F) || (number >= 0x30 && number <= 0x4F);
  return is_vendor ? "Vendor" : std::string_view{};
}

std::string_view name_of(MadMethod method) {
  switch (method) {
    case MadMethod::Get:
      return "Get";
    case MadMethod::Set:
      return "Set";
    case MadMethod::Send:
      return "Send";
    case MadMethod::Trap:
      return "Trap";
    case MadMethod::Report:
      return "Report";
    case MadMethod::TrapRepress:
      return "TrapRepress";
    case MadMethod::GetTable:
      return "GetTable";
    case MadMethod::GetTraceTable:
      return "GetTraceTable";
    case MadMethod::GetMulti:
      return "GetMulti";
    case MadMethod::Delete:
      return "Delete";
    case MadMethod::GetResp:
      return "GetResp";
    case MadMethod::ReportResp:
      return "ReportResp";
    case MadMethod::GetTableResp:
      return "GetTableResp";
    case MadMethod::GetMultiResp:
      return "GetMultiResp";
    case MadMethod::DeleteResp:
      return "DeleteResp";
  }
  return {};
}

std::string_view attribute_name(ManagementClass mgmt_class, std::uint16_t attribute_id) {
  std::span<const AttributeName> own;
  if (mgmt_class == ManagementClass::SubnLidRouted ||
      mgmt_class == ManagementClass::SubnDirectedRoute) {
    if (const auto name = name_of(static_cast<SmpAttribute>(attribute_id)); !name.empty()) {
      return name;
    }
  } else if (mgmt_class == ManagementClass::SubnAdm) {
    own = kSaAttributes;
  } else if (mgmt_class == ManagementClass::ComMgt) {
    own = kCmAttributes;
  } else if (mgmt_class == ManagementClass::Perf) {
    own = kPerfAttributes;
  } else if (mgmt_class == ManagementClass::DevMgt) {
    own = kDevMgtAttributes;
  }
  const std::string_view name = find(own, attribute_id);
  return name.empty() ? find(kCommonAttributes, attribute_id) : name;
}

std::string status_text(ManagementClass mgmt_class, std::uint16_t status) {
  std::string text;
  const auto add = [&text](std::string_view part) {
    if (!part.empty()) {
      text += text.empty() ? "" : ", ";
      text += part;
    }
  };
  add((status & kMadStatusBusy) != 0 ? "busy" : "");
  add((status & kMadStatusRedirect) != 0 ? "redirect" : "");
  add(code_text(status));
  const unsigned class_code = status >> 8;
  if (mgmt_class == ManagementClass::SubnAdm) {
    add(sa_error_text(class_code));
  } else if (class_code != 0) {
    add(fmt::format("class status {:#x}", class_code));
  }
  if ((status & 0x00E0) != 0) {
    add("reserved bits");
  }
  return text.empty() ? "ok" : text;
}

}  // namespace weft::wire
