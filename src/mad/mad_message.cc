#include "mad/mad_message.h"

#include <span>

#include "wire/mad/perf_mad.h"
#include "wire/mad/sa_mad.h"
#include "wire/mad/vendor_mad.h"

namespace weft::mad {
namespace {

constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::MadHeader>;
constexpr std::uint16_t kDirectionBit = 0x8000;  // in the status of a directed-route SMP

}  // namespace

wire::MadHeader MadMessage::header() const {
  return wire::unpack<wire::MadHeader>(std::span{mad}.first<kHeaderBytes>());
}

void MadMessage::set_header(const wire::MadHeader& header) {
  wire::pack(header, std::span{mad}.first<kHeaderBytes>());
}

std::uint16_t MadMessage::status() const {
  const wire::MadHeader each = header();
  return each.mgmt_class == wire::ManagementClass::SubnDirectedRoute
             ? static_cast<std::uint16_t>(each.status & ~kDirectionBit)
             : each.status;
}

void MadMessage::set_status(std::uint16_t status) {
  wire::MadHeader each = header();
  if (each.mgmt_class == wire::ManagementClass::SubnDirectedRoute) {
    status = static_cast<std::uint16_t>((status & ~kDirectionBit) | (each.status & kDirectionBit));
  }
  each.status = status;
  set_header(each);
}

std::size_t data_offset(wire::ManagementClass mgmt_class) {
  switch (mgmt_class) {
    case wire::ManagementClass::SubnAdm:
      return wire::kSizeOf<wire::SaHeader>;
    case wire::ManagementClass::SubnLidRouted:
    case wire::ManagementClass::SubnDirectedRoute:
    case wire::ManagementClass::Perf:
    case wire::ManagementClass::BoardManagement:
    case wire::ManagementClass::DevMgt:
    case wire::ManagementClass::DevAdm:
    case wire::ManagementClass::Bis:
      return wire::kPerfDataAt;
    case wire::ManagementClass::ComMgt:
    case wire::ManagementClass::Snmp:
    case wire::ManagementClass::BootMgt:
    case wire::ManagementClass::CongestionControl:
      break;
  }
  constexpr std::size_t kVendorDataAt = 40;
  return wire::is_vendor_with_oui(mgmt_class) ? kVendorDataAt : kHeaderBytes;
}

bool has_rmpp_header(wire::ManagementClass mgmt_class) {
  return mgmt_class == wire::ManagementClass::SubnAdm ||
         mgmt_class == wire::ManagementClass::DevMgt ||
         mgmt_class == wire::ManagementClass::DevAdm || mgmt_class == wire::ManagementClass::Bis ||
         wire::is_vendor_with_oui(mgmt_class);
}

wire::Rmpp rmpp_of(const MadBytes& mad) {
  return wire::unpack<wire::Rmpp>(
      std::span{mad}.subspan<kHeaderBytes, wire::kSizeOf<wire::Rmpp>>());
}

void set_rmpp(MadBytes& mad, const wire::Rmpp& rmpp) {
  wire::pack(rmpp, std::span{mad}.subspan<kHeaderBytes, wire::kSizeOf<wire::Rmpp>>());
}

wire::Rmpp rmpp_reply(wire::RmppType type, wire::RmppStatus status) {
  return {.version = wire::kRmppVersion,
          .type = type,
          .response_time = wire::kRmppNoResponseTime,
          .is_last = false,
          .is_first = false,
          .is_active = true,
          .status = status,
          .data1 = 0,
          .data2 = 0};
}

std::optional<wire::MadMethod> response_method(wire::MadMethod request) {
  switch (request) {
    case wire::MadMethod::Get:
    case wire::MadMethod::Set:
      return wire::MadMethod::GetResp;
    case wire::MadMethod::Trap:
      return wire::MadMethod::TrapRepress;
    case wire::MadMethod::Report:
      return wire::MadMethod::ReportResp;
    case wire::MadMethod::GetTable:
    case wire::MadMethod::GetTraceTable:
      return wire::MadMethod::GetTableResp;
    case wire::MadMethod::GetMulti:
      return wire::MadMethod::GetMultiResp;
    case wire::MadMethod::Delete:
      return wire::MadMethod::DeleteResp;
    case wire::MadMethod::Send:
    case wire::MadMethod::TrapRepress:
    case wire::MadMethod::GetResp:
    case wire::MadMethod::ReportResp:
    case wire::MadMethod::GetTableResp:
    case wire::MadMethod::GetMultiResp:
    case wire::MadMethod::DeleteResp:
      break;
  }
  return std::nullopt;
}

bool is_answer(const wire::MadHeader& header) {
  return wire::is_response(header.method) || header.method == wire::MadMethod::TrapRepress;
}

void convert_to_response(MadMessage& message) {
  wire::MadHeader header = message.header();
  if (const auto method = response_method(header.method)) {
    header.method = *method;
    if (header.mgmt_class == wire::ManagementClass::SubnDirectedRoute) {
      header.status |= kDirectionBit;
    }
    message.set_header(header);
  }
}

}  // namespace weft::mad
