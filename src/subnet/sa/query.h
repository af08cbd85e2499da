#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "mad/mad_address.h"
#include "subnet/sa/component_matcher.h"
#include "subnet/sa/directory.h"
#include "subnet/subnet.h"
#include "subnet/subnet_control.h"
#include "wire/mad/mad.h"
#include "wire/mad/sa_mad.h"

namespace weft::subnet {

/// MAD status; 0 is success.
using SaStatusCode = std::uint16_t;
[[nodiscard]] constexpr SaStatusCode code(wire::SaStatus status) {
  return static_cast<SaStatusCode>(status);
}

/// Cost of examining one record, in bytes of responses (SaBudget). Policy, not from the
/// specification.
inline constexpr std::size_t kRecordCost = 64;

/// Response under construction: packed records or an error status, and the work spent on it.
/// Records are padded to multiples of 8 bytes (IBTA vol 1 §15.2.1.1).
class SaAnswer {
 public:
  SaAnswer(std::size_t record_limit, std::size_t byte_limit)
      : record_limit_(record_limit), byte_limit_(byte_limit) {}

  void refuse(SaStatusCode status) { status_ = status; }
  void refuse(wire::SaStatus status) { status_ = code(status); }
  [[nodiscard]] SaStatusCode status() const { return status_; }

  template <std::size_t kBytes>
  void add(const std::array<std::byte, kBytes>& record) {
    constexpr std::size_t kStep = (kBytes + 7) / 8 * 8;
    if (count_ == record_limit_ || bytes_.size() + kStep > byte_limit_) {
      return refuse(wire::SaStatus::TooManyRecords);
    }
    bytes_.insert(bytes_.end(), record.begin(), record.end());
    bytes_.resize(bytes_.size() + (kStep - kBytes));
    offset_ = wire::sa_attribute_offset(kBytes);
    ++count_;
  }
  template <wire::WireType T>
  void add(const T& record) {
    add(wire::pack(record));
  }

  /// Accounts for examined records.
  void charge(std::size_t records = 1) { records_examined_ += records; }
  [[nodiscard]] std::size_t cost() const { return bytes_.size() + records_examined_ * kRecordCost; }

  /// An error was set; further records are not added to the response.
  [[nodiscard]] bool is_over() const { return status_ != 0; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::uint16_t attribute_offset() const { return offset_; }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::size_t record_limit_;
  std::size_t byte_limit_;
  std::vector<std::byte> bytes_;
  std::size_t count_{};
  std::size_t records_examined_{1};
  std::uint16_t offset_{};
  SaStatusCode status_{};
};

/// A request and the state it is answered from.
struct SaQuery {
  const SubnetControl& control;
  const SaDirectory& directory;
  wire::SaHeader header{};
  ByteSpan data{};  ///< payload behind the SA header; any length if the request used RMPP
  mad::MadAddress source{};
  PortId requester{};
  bool is_trusted{};  ///< the request carried the SM_Key (§15.4.1.1)
  Instant now{};

  [[nodiscard]] const Subnet& subnet() const { return control.subnet(); }
  [[nodiscard]] std::uint64_t mask() const { return header.component_mask; }
  [[nodiscard]] wire::MadMethod method() const { return header.header.method; }

  /// The record of the request; shorter data is zero-extended.
  template <wire::WireType T>
  [[nodiscard]] T record() const {
    std::array<std::byte, wire::kSizeOf<T>> bytes{};
    copy_bytes(bytes, data.first(std::min(data.size(), bytes.size())));
    return wire::unpack<T>(bytes);
  }
  template <wire::WireType T, wire::Name kFieldName>
  [[nodiscard]] bool has() const {
    return (mask() & wire::kComponent<T, kFieldName>) != 0;
  }

  /// §15.4.1.2: an untrusted requester sees only ports that share a partition with it.
  [[nodiscard]] bool can_see(PortId port) const {
    return is_trusted || directory.shared_key(directory.kind_of(subnet(), requester),
                                              directory.kind_of(subnet(), port));
  }

  /// Calls visit(PortId) for visible ports with a LID: the owner of `lid` if given, otherwise all
  /// of them until the response has failed.
  template <class Visit>
  void for_each_end_port(std::optional<Lid> lid, SaAnswer& answer, Visit&& visit) const {
    if (lid) {
      const auto port = subnet().find_lid(*lid);
      if (port && can_see(*port)) {
        visit(*port);
      }
      return;
    }
    for (const PortId port : directory.end_ports()) {
      if (answer.is_over()) {
        return;
      }
      answer.charge();
      if (can_see(port)) {
        visit(port);
      }
    }
  }
};

}  // namespace weft::subnet
