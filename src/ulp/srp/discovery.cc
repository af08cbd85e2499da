#include "ulp/srp/discovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "ulp/srp/port_name.h"

namespace weft::srp {
namespace {

constexpr std::string_view kServicePrefix = "SRP.T10:";
constexpr std::size_t kMaxTargets = 1024;  // policy: of one port

/// The identifier extension in the name of an SRP service.
[[nodiscard]] std::optional<std::uint64_t> id_extension(ByteSpan name) {
  const std::string text = text_of(name);
  if (!text.starts_with(kServicePrefix) || text.size() != kServicePrefix.size() + 16) {
    return std::nullopt;
  }
  std::uint64_t value = 0;
  for (const char c : text.substr(kServicePrefix.size())) {
    const std::string_view digits = "0123456789abcdef";
    const auto lower = static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
    const std::size_t digit = digits.find(lower);
    if (digit == std::string_view::npos) {
      return std::nullopt;
    }
    value = value << 4 | digit;
  }
  return value;
}

[[nodiscard]] bool is_srp(const wire::IoControllerProfile& profile) {
  return (profile.io_class == wire::kSrpIoClass || profile.io_class == wire::kSrpRev10IoClass) &&
         profile.io_subclass == wire::kSrpIoSubclass && profile.protocol == wire::kSrpIoProtocol &&
         profile.protocol_version == wire::kSrpIoProtocolVersion;
}

template <wire::WireType T>
[[nodiscard]] T data_of(const wire::DevMgtMad& mad) {
  return wire::unpack<T>(std::span{mad.data}.first<wire::kSizeOf<T>>());
}

}  // namespace

std::string text_of(ByteSpan octets) {
  std::string text;
  for (const std::byte octet : octets) {
    if (octet == std::byte{}) {
      break;
    }
    text += static_cast<char>(octet);
  }
  return text;
}

std::string connect_string(const FoundTarget& target, const Gid& dgid, PKey pkey) {
  std::string text = fmt::format(
      "id_ext={:016x},ioc_guid={:016x},dgid={:016x}{:016x},pkey={:04x},service_id={:016x}",
      target.id_extension, target.ioc_guid.value(), dgid.prefix(), dgid.interface_id().value(),
      pkey.value(), target.service_id);
  if (target.io_class != wire::kSrpIoClass) {
    text += fmt::format(",io_class={:04x}", target.io_class);
  }
  return text;
}

std::array<std::byte, 16> target_port_id(const FoundTarget& target) {
  const wire::SrpPortId id = Gid{target.id_extension, target.ioc_guid}.octets();
  return target.io_class == wire::kSrpRev10IoClass ? with_halves_swapped(id) : id;
}

void Discovery::ask(std::uint16_t attribute, std::uint32_t modifier) {
  wire::DevMgtMad request;
  request.header.method = wire::MadMethod::Get;
  request.header.transaction_id = next_transaction_++;
  request.header.attribute_id = attribute;
  request.header.attribute_modifier = modifier;
  requests_.push_back(request);
}

std::optional<wire::DevMgtMad> Discovery::next_request() const {
  if (requests_.empty()) {
    return std::nullopt;
  }
  return requests_.front();
}

Result<void> Discovery::handle_answer(const wire::DevMgtMad& answer) {
  if (requests_.empty() ||
      answer.header.transaction_id != requests_.front().header.transaction_id ||
      answer.header.attribute_id != requests_.front().header.attribute_id ||
      answer.header.method != wire::MadMethod::GetResp) {
    return fail(ErrorCode::Io, "that answers nothing that was asked");
  }
  const wire::MadHeader asked = requests_.front().header;
  requests_.pop_front();
  if (answer.header.status != 0) {
    if (asked.attribute_id == wire::kAttributeIoUnitInfo) {
      return fail(ErrorCode::NoSuchDevice, "the port has no I/O unit: status {:#06x}",
                  answer.header.status);
    }
    return {};
  }
  attributes_.push_back(
      {.attribute = asked.attribute_id, .modifier = asked.attribute_modifier, .data = answer.data});
  switch (asked.attribute_id) {
    case wire::kAttributeIoUnitInfo:
      read_unit(data_of<wire::IoUnitInfo>(answer));
      break;
    case wire::kAttributeIoControllerProfile:
      read_profile(data_of<wire::IoControllerProfile>(answer),
                   static_cast<std::uint16_t>(asked.attribute_modifier));
      break;
    default:
      read_services(data_of<wire::ServiceEntries>(answer),
                    wire::ServiceEntriesRange::from(asked.attribute_modifier));
      break;
  }
  return {};
}

void Discovery::read_unit(const wire::IoUnitInfo& unit) {
  unit_ = unit;
  for (std::uint16_t slot = 1; slot <= unit.max_controllers; ++slot) {
    if (unit.controller_list[slot - 1U] == wire::IocSlot::Present) {
      ask(wire::kAttributeIoControllerProfile, slot);
    }
  }
}

/// Services of a controller are asked for next, before another controller's profile.
void Discovery::read_profile(const wire::IoControllerProfile& profile, std::uint16_t slot) {
  controllers_.push_back({.slot = slot, .profile = profile});
  if (!is_srp(profile)) {
    return;
  }
  std::deque<wire::DevMgtMad> later;
  later.swap(requests_);
  for (unsigned low = 0; low < profile.service_entries; low += wire::ServiceEntries::kMost) {
    const unsigned high =
        std::min<unsigned>(low + wire::ServiceEntries::kMost, profile.service_entries) - 1;
    ask(wire::kAttributeServiceEntries,
        wire::ServiceEntriesRange{.slot = slot,
                                  .high = static_cast<std::uint8_t>(high),
                                  .low = static_cast<std::uint8_t>(low)}
            .modifier());
  }
  requests_.insert(requests_.end(), later.begin(), later.end());
}

void Discovery::read_services(const wire::ServiceEntries& entries,
                              const wire::ServiceEntriesRange& range) {
  FoundController& controller = controllers_.back();
  const wire::IoControllerProfile& profile = controller.profile;
  for (std::size_t i = 0; i + range.low <= range.high && i < entries.entries.size(); ++i) {
    controller.services.push_back(entries.entries[i]);
    const auto extension = id_extension(entries.entries[i].name);
    if (extension && targets_.size() < kMaxTargets) {
      targets_.push_back({.id_extension = *extension,
                          .ioc_guid = profile.ioc_guid,
                          .service_id = entries.entries[i].service_id,
                          .io_class = profile.io_class,
                          .max_request_iu = profile.send_message_size,
                          .ioc_name = text_of(profile.id_string)});
    }
  }
}

}  // namespace weft::srp
