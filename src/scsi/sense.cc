#include "scsi/sense.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "scsi/big_endian.h"

namespace weft::scsi {
namespace {

constexpr std::uint64_t kSksv = 0x80;      // SENSE KEY SPECIFIC VALID
constexpr std::uint64_t kInCdb = 0x40;     // C/D
constexpr std::uint64_t kBitValid = 0x08;  // BPV
constexpr std::size_t kFixedBytes = 18;    // with ADDITIONAL SENSE LENGTH 10
constexpr std::size_t kHeaderBytes = 8;    // of descriptor format
constexpr std::size_t kInformationBytes = 12;
constexpr std::size_t kKeySpecificBytes = 8;

// Field pointer sense key specific data (SPC-4 §4.5.2.4.2), 24 bits.
std::uint64_t key_specific(const FieldPointer& field) {
  const std::uint64_t flags = kSksv | (field.in_cdb ? kInCdb : 0) |
                              (field.bit.has_value() ? kBitValid | (*field.bit & 7u) : 0);
  return flags << 16 | field.octet;
}

// Or progress indication sense key specific data (SPC-4 §4.5.2.4.4).
std::uint64_t key_specific(const Sense& sense) {
  return sense.field.has_value() ? key_specific(*sense.field) : kSksv << 16 | *sense.progress;
}

bool has_key_specific(const Sense& sense) {
  return sense.field.has_value() || sense.progress.has_value();
}

// SPC-4 §4.5.3. An INFORMATION that does not fit into 32 bits is left out, as VALID = 0 says.
std::size_t put_fixed(MutableByteSpan out, const Sense& sense) {
  const bool valid = sense.information.has_value() &&
                     *sense.information <= std::numeric_limits<std::uint32_t>::max();
  store_number(out, 0, 1, valid ? 0xF0 : 0x70);
  store_number(out, 2, 1, std::to_underlying(sense.key));
  store_number(out, 3, 4, valid ? *sense.information : 0);
  store_number(out, 7, 1, kFixedBytes - 8);
  store_number(out, 12, 2, std::to_underlying(sense.code));
  if (has_key_specific(sense)) {
    store_number(out, 15, 3, key_specific(sense));
  }
  return kFixedBytes;
}

// SPC-4 §4.5.2: a header and the descriptors that say something.
std::size_t put_descriptors(MutableByteSpan out, const Sense& sense) {
  store_number(out, 0, 1, 0x72);
  store_number(out, 1, 1, std::to_underlying(sense.key));
  store_number(out, 2, 2, std::to_underlying(sense.code));
  std::size_t at = kHeaderBytes;
  if (sense.information.has_value()) {
    store_number(out, at, 3, 0x00'0A'80);  // information descriptor, VALID
    store_number(out, at + 4, 8, *sense.information);
    at += kInformationBytes;
  }
  if (has_key_specific(sense)) {
    store_number(out, at, 2, 0x02'06);  // sense key specific descriptor
    store_number(out, at + 4, 3, key_specific(sense));
    at += kKeySpecificBytes;
  }
  store_number(out, 7, 1, at - kHeaderBytes);
  return at;
}

}  // namespace

SenseData::SenseData(const Sense& sense, Format format)
    : size_(format == Format::Fixed ? put_fixed(octets_, sense) : put_descriptors(octets_, sense)) {
}

std::unexpected<Failure> invalid_field_in_cdb(std::uint16_t octet, std::uint8_t bit) {
  return check_condition({
      .key = SenseKey::IllegalRequest,
      .code = SenseCode::InvalidFieldInCdb,
      .field = FieldPointer{.in_cdb = true, .octet = octet, .bit = bit}
  });
}

std::unexpected<Failure> invalid_field_in_parameters(std::size_t octet) {
  const auto at = static_cast<std::uint16_t>(
      std::min<std::size_t>(octet, std::numeric_limits<std::uint16_t>::max()));
  return check_condition({
      .key = SenseKey::IllegalRequest,
      .code = SenseCode::InvalidFieldInParameterList,
      .field = FieldPointer{.in_cdb = false, .octet = at}
  });
}

}  // namespace weft::scsi
