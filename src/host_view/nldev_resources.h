#pragma once

// The verbs objects that RDMA_NL_NLDEV lists (the kernel's restrack), as a table: which attributes
// name each kind, and how one object is written.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "host_view/host_view.h"
#include "host_view/nldev_attributes.h"
#include "wire/netlink/message.h"

namespace weft::host_view {

struct Asker;

/// Writes NLDEV messages: attributes by their names, numbers by their sizes.
class NldevWriter {
 public:
  using A = NldevAttribute;
  explicit NldevWriter(std::vector<std::byte>& datagram) : writer_(datagram) {}

  void begin(const wire::netlink::Header& request, NldevCommand command, std::uint16_t flags);
  void end() { writer_.end(); }
  [[nodiscard]] std::size_t size() const { return writer_.size(); }

  void u8(A type, std::uint8_t value) { writer_.put_number(std::to_underlying(type), value); }
  void u32(A type, std::uint32_t value) { writer_.put_number(std::to_underlying(type), value); }
  void u64(A type, std::uint64_t value) { writer_.put_number(std::to_underlying(type), value); }
  void text(A type, std::string_view value) { writer_.put_text(std::to_underlying(type), value); }
  void octets(A type, std::span<const std::byte> value) {
    writer_.put(std::to_underlying(type), value);
  }
  [[nodiscard]] std::size_t begin_nested(A type) {
    return writer_.begin_nested(std::to_underlying(type));
  }
  void end_nested(std::size_t nested) { writer_.end_nested(nested); }

  /// The device's index and name, with which every message begins.
  void handle(const DeviceView& device);

 private:
  wire::netlink::MessageWriter writer_;
};

/// One kind of object.
struct ResourceKind {
  /// The program, the object's number, and its position in the program's list; true ends the walk.
  using Visit = std::function<bool(const ProgramView&, std::uint32_t number, std::size_t at)>;

  NldevCommand command;
  NldevAttribute table;
  NldevAttribute entry;
  NldevAttribute id;
  std::string_view name;  ///< in the summary
  std::size_t (*count)(const ProgramView&);
  std::uint32_t (*number)(const ProgramView&, std::size_t at);
  /// 0: of no port.
  std::uint32_t (*port_of)(const ProgramView&, std::size_t at);
  void (*put)(NldevWriter&, const ProgramView&, std::size_t at, const Asker&);

  /// Over the objects of all programs on a device; whether a visit ended it.
  bool for_each(const DeviceView& device, const Visit& visit) const;
};

/// Null for a command of another sort.
[[nodiscard]] const ResourceKind* resource_kind(NldevCommand command);

/// How many of each kind there are.
void put_summary(NldevWriter& out, const DeviceView& device);

}  // namespace weft::host_view
