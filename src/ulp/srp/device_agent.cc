#include "ulp/srp/device_agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "base/assert.h"
#include "base/bytes.h"
#include "wire/mad/class_port_info.h"

namespace weft::srp {
namespace {

constexpr std::uint8_t kResponseTime = 20;  // about 4 s
constexpr std::uint8_t kReadDepth = 4;
constexpr std::uint32_t kMaxRdmaSize = 1U << 24;
constexpr std::size_t kMaxServices = 255;

template <wire::WireType T>
void put(wire::DevMgtMad& mad, const T& attribute) {
  static_assert(wire::kSizeOf<T> <= 192);
  wire::pack(attribute, std::span{mad.data}.first<wire::kSizeOf<T>>());
}

template <std::size_t kBytes>
void set_text(std::array<std::byte, kBytes>& to, std::string_view text) {
  to = {};
  copy_bytes(to, std::as_bytes(std::span{text}).first(std::min(text.size(), kBytes - 1)));
}

/// What a slot's number is worth; 0 if this unit has it and a controller is in it.
[[nodiscard]] std::uint16_t slot_status(std::uint32_t slot) {
  if (slot == 0 || slot > kIocSlots) {
    return wire::kMadStatusInvalidField;
  }
  return slot == 1 ? std::uint16_t{0} : wire::kDevMgtStatusNoIoc;
}

}  // namespace

void set_ioc(wire::IoUnitInfo& unit, std::uint16_t slot, std::uint8_t value) {
  WEFT_ASSERT(slot >= 1 && slot <= unit.controller_list.size(), "slots count from one");
  unit.controller_list[slot - 1U] = static_cast<wire::IocSlot>(value & 0xF);
}

std::string DeviceAgent::service_name(std::uint64_t id_extension) {
  return fmt::format("SRP.T10:{:016x}", id_extension);
}

Result<void> DeviceAgent::add_service(const std::string& name, std::uint64_t service_id) {
  wire::IocServiceEntry entry{.service_id = service_id};
  set_text(entry.name, name);
  for (const wire::IocServiceEntry& other : services_) {
    if (other.name == entry.name) {
      return fail(ErrorCode::Exists, "there is a service '{}'", name);
    }
  }
  if (services_.size() == kMaxServices) {
    return fail(ErrorCode::NoBufferSpace, "a controller has {} services at most", kMaxServices);
  }
  services_.push_back(entry);
  return {};
}

wire::DevMgtMad DeviceAgent::answer(const wire::DevMgtMad& request) const {
  wire::DevMgtMad response{.header = request.header};
  response.header.status = 0;
  response.header.method = wire::MadMethod::GetResp;
  switch (request.header.method) {
    case wire::MadMethod::Get:
      answer_get(response);
      break;
    case wire::MadMethod::Set:
      response.header.status = wire::kMadStatusMethodAttributeUnsupported;
      break;
    default:
      response.header.status = wire::kMadStatusMethodUnsupported;
      break;
  }
  return response;
}

void DeviceAgent::answer_get(wire::DevMgtMad& response) const {
  wire::MadHeader& header = response.header;
  switch (header.attribute_id) {
    case wire::kAttributeClassPortInfo:
      put(response, wire::ClassPortInfo{.resp_time_value = kResponseTime});
      break;
    case wire::kAttributeIoUnitInfo:
      put(response, io_unit());
      break;
    case wire::kAttributeIoControllerProfile:
      header.status = put_profile(response);
      break;
    case wire::kAttributeServiceEntries:
      header.status = put_services(response);
      break;
    default:
      header.status = wire::kMadStatusMethodAttributeUnsupported;
      break;
  }
}

wire::IoUnitInfo DeviceAgent::io_unit() const {
  wire::IoUnitInfo unit{.change_id = 1, .max_controllers = kIocSlots};
  set_ioc(unit, 1, static_cast<std::uint8_t>(wire::IocSlot::Present));
  for (std::uint16_t slot = 2; slot <= kIocSlots; ++slot) {
    set_ioc(unit, slot, static_cast<std::uint8_t>(wire::IocSlot::Empty));
  }
  return unit;
}

wire::IoControllerProfile DeviceAgent::profile() const {
  wire::IoControllerProfile profile{
      .ioc_guid = options_.ioc_guid,
      .vendor_id = options_.vendor_id,
      .device_id = options_.device_id,
      .device_version = options_.device_version,
      .subsystem_vendor_id = options_.vendor_id,
      .io_class = wire::kSrpIoClass,
      .io_subclass = wire::kSrpIoSubclass,
      .protocol = wire::kSrpIoProtocol,
      .protocol_version = wire::kSrpIoProtocolVersion,
      .initiators_supported = 0xFFFF,
      .send_message_depth = options_.send_queue_depth,
      .rdma_read_depth = kReadDepth,
      .send_message_size = options_.send_message_size,
      .rdma_transfer_size =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(options_.rdma_size, kMaxRdmaSize)),
      .controller_operations =
          wire::kIocSendTo | wire::kIocSendFrom | wire::kIocRdmaReadFrom | wire::kIocRdmaWriteFrom,
      .service_entries = static_cast<std::uint8_t>(services_.size())};
  set_text(profile.id_string, options_.id_string);
  return profile;
}

std::uint16_t DeviceAgent::put_profile(wire::DevMgtMad& response) const {
  const std::uint16_t status = slot_status(response.header.attribute_modifier);
  if (status == 0) {
    put(response, profile());
  }
  return status;
}

std::uint16_t DeviceAgent::put_services(wire::DevMgtMad& response) const {
  const auto range = wire::ServiceEntriesRange::from(response.header.attribute_modifier);
  if (const std::uint16_t status = slot_status(range.slot); status != 0) {
    return status;
  }
  const bool is_sound = range.low <= range.high && range.high < services_.size() &&
                        range.high - range.low < static_cast<int>(wire::ServiceEntries::kMost);
  if (!is_sound) {
    return wire::kDevMgtStatusNoServiceEntries;
  }
  wire::ServiceEntries entries;
  for (std::size_t i = range.low; i <= range.high; ++i) {
    entries.entries[i - range.low] = services_[i];
  }
  put(response, entries);
  return 0;
}

}  // namespace weft::srp
