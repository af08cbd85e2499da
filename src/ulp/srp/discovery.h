#pragma once

// How an initiator finds targets: the device management records of a port, one after the other
// (R-SRPI-8). A caller sends what next_request() says and hands over the answers. Pure.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "wire/srp/device_management.h"

namespace weft::srp {

/// A target that was found; what a login needs to be known.
struct FoundTarget {
  std::uint64_t id_extension{};
  Guid ioc_guid{};
  std::uint64_t service_id{};
  std::uint16_t io_class{wire::kSrpIoClass};
  std::uint32_t max_request_iu{};
  std::string ioc_name{};
  bool operator==(const FoundTarget&) const = default;
};

/// "id_ext=...,ioc_guid=...,dgid=...,pkey=...,service_id=..." and, for revision 10, io_class: what
/// srp_daemon prints and Linux's add_target takes.
[[nodiscard]] std::string connect_string(const FoundTarget& target, const Gid& dgid, PKey pkey);

/// The target port identifier of a login: extension and GUID, in the other order for revision 10.
[[nodiscard]] std::array<std::byte, 16> target_port_id(const FoundTarget& target);

/// An attribute as its agent sent it.
struct ReadAttribute {
  std::uint16_t attribute{};
  std::uint32_t modifier{};
  std::array<std::byte, 192> data{};
};

/// An I/O controller, of SRP or of something else.
struct FoundController {
  std::uint16_t slot{};
  wire::IoControllerProfile profile{};
  std::vector<wire::IocServiceEntry> services{};  ///< of SRP's only
};

/// The text in octets that zeroes fill up.
[[nodiscard]] std::string text_of(ByteSpan octets);

class Discovery {
 public:
  Discovery() { ask(wire::kAttributeIoUnitInfo, 0); }

  /// Nothing: the port has been read.
  [[nodiscard]] std::optional<wire::DevMgtMad> next_request() const;
  /// The answer to next_request(). A controller that cannot be read is skipped; a port without an
  /// I/O unit is an error.
  Result<void> handle_answer(const wire::DevMgtMad& answer);
  [[nodiscard]] const std::vector<FoundTarget>& targets() const { return targets_; }
  /// None: it was not read.
  [[nodiscard]] const std::optional<wire::IoUnitInfo>& unit() const { return unit_; }
  [[nodiscard]] const std::vector<FoundController>& controllers() const { return controllers_; }
  /// All that was read, in this order.
  [[nodiscard]] const std::vector<ReadAttribute>& attributes() const { return attributes_; }

 private:
  void ask(std::uint16_t attribute, std::uint32_t modifier);
  void read_unit(const wire::IoUnitInfo& unit);
  void read_profile(const wire::IoControllerProfile& profile, std::uint16_t slot);
  void read_services(const wire::ServiceEntries& entries, const wire::ServiceEntriesRange& range);

  std::deque<wire::DevMgtMad> requests_;
  std::uint64_t next_transaction_{1};
  std::optional<wire::IoUnitInfo> unit_;
  std::vector<FoundController> controllers_;  // the last one's services are being read
  std::vector<FoundTarget> targets_;
  std::vector<ReadAttribute> attributes_;
};

}  // namespace weft::srp
