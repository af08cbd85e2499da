#pragma once

#include <cstdint>
#include <string_view>

#include "base/intrusive_list.h"

namespace weft::core {

class Device;

/// Kinds of objects that a device keeps account of, as the kernel's resource tracking does.
enum class ResourceKind : std::uint8_t { Pd, Cq, Qp, Mr, Mw, Srq, Ah, Xrcd, Wq, IndirectionTable };
inline constexpr std::size_t kResourceKinds = 10;

[[nodiscard]] std::string_view name_of(ResourceKind kind);

struct ResourceTag;

/// An object of a device, on its list from creation to destruction: what is left when the device
/// goes is named in the log.
class Resource : public ListHook<ResourceTag> {
 public:
  Resource(Device& device, ResourceKind kind, const char* caller)
      : device_(device), kind_(kind), caller_(caller) {}

  [[nodiscard]] Device& device() const { return device_; }
  [[nodiscard]] ResourceKind kind() const { return kind_; }
  /// Who created it: the name of an upper-layer protocol. A string literal.
  [[nodiscard]] const char* caller() const { return caller_; }

  void* driver_data{};  ///< the driver's own object for this one

 private:
  Device& device_;
  const ResourceKind kind_;
  const char* const caller_;
};

}  // namespace weft::core
