#pragma once

// MADs for tests of this room.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sriov/types.h"
#include "wire/cm/cm_codes.h"
#include "wire/layout.h"
#include "wire/mad/mad.h"
#include "wire/mad/mc_member_record.h"
#include "wire/mad/sa_mad.h"

namespace weft::sriov::testing {

inline constexpr std::size_t kDataAt = wire::kSizeOf<wire::MadHeader>;

inline wire::MadHeader header_of(const MadBytes& mad) {
  return wire::unpack<wire::MadHeader>(std::span{mad}.first<kDataAt>());
}

inline MadBytes make_mad(wire::ManagementClass mgmt_class, wire::MadMethod method,
                         std::uint16_t attribute, std::uint64_t transaction_id) {
  wire::Mad mad;
  mad.header = {.mgmt_class = mgmt_class,
                .method = method,
                .transaction_id = transaction_id,
                .attribute_id = attribute};
  return wire::pack(mad);
}

template <class Message>
Message cm_message(const MadBytes& mad) {
  return wire::unpack<Message>(std::span{mad}.subspan<kDataAt, wire::kSizeOf<Message>>());
}

template <class Message>
MadBytes make_cm(wire::CmAttribute attribute, const Message& message,
                 std::uint64_t transaction_id = 1) {
  MadBytes mad = make_mad(wire::ManagementClass::ComMgt, wire::MadMethod::Send,
                          static_cast<std::uint16_t>(attribute), transaction_id);
  std::ranges::copy(wire::pack(message), mad.begin() + kDataAt);
  return mad;
}

template <class Record>
wire::SaMad make_sa(wire::MadMethod method, wire::SaAttribute attribute, const Record& record,
                    std::uint64_t mask, std::uint64_t transaction_id) {
  wire::SaMad mad;
  mad.sa.header.method = method;
  mad.sa.header.attribute_id = static_cast<std::uint16_t>(attribute);
  mad.sa.header.transaction_id = transaction_id;
  mad.sa.component_mask = mask;
  std::ranges::copy(wire::pack(record), mad.data.begin());
  return mad;
}

template <class Record>
Record record_of(const wire::SaMad& mad) {
  return wire::unpack<Record>(std::span{mad.data}.first<wire::kSizeOf<Record>>());
}

}  // namespace weft::sriov::testing
