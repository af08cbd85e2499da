// Arbitrary octets as the text of Login and Text PDUs: refused with a reason, or read again from
// what it is written as; each pair as an offer to a target, in every scene, and as an answer to an
// initiator.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "iscsi/negotiation.h"
#include "iscsi/text.h"

namespace weft::iscsi {
namespace {

void expect(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void try_text(std::string_view text) {
  const auto pairs = parse_text(text);
  if (!pairs) {
    expect(!pairs.error().reason.empty());
    return;
  }
  TextWriter writer;
  for (const TextPair& pair : *pairs) {
    writer.add(pair.key, pair.value);
    static_cast<void>(split_list(pair.value));
    if (const auto binary = parse_binary(pair.value, 1024)) {
      const auto same = parse_binary(to_binary_value(*binary), 1024);
      expect(same.has_value() && *same == *binary);
    }
  }
  const std::string again = writer.take();
  const auto reread = parse_text(again);
  expect(reread.has_value() && *reread == *pairs);
  const Preferences preferences;
  for (unsigned scene = 0; scene < 16; ++scene) {
    Negotiation negotiation{preferences, {}};
    TextWriter answers;
    const bool is_initiator = (scene & 1) != 0;
    if (is_initiator) {
      for (const char* key : {"HeaderDigest", "MaxBurstLength", "InitialR2T", "ImmediateData"}) {
        negotiation.offer(key, answers);
      }
    }
    for (const TextPair& pair : *pairs) {
      if (!negotiation.take(pair,
                            {.role = is_initiator ? Role::Initiator : Role::Target,
                             .leading = (scene & 2) != 0,
                             .discovery = (scene & 4) != 0,
                             .full_feature = (scene & 8) != 0},
                            answers)) {
        break;
      }
    }
    const Parameters& agreed = negotiation.agreed();
    expect(agreed.max_burst_length >= 512 && agreed.max_burst_length <= 0xFF'FFFF);
    expect(agreed.max_recv_data_segment_length >= 512 && agreed.error_recovery_level <= 2);
    const std::string written = answers.take();
    expect(parse_text(written).has_value());
  }
}

}  // namespace
}  // namespace weft::iscsi

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto octets = std::as_bytes(std::span{data, size});
  weft::iscsi::try_text(weft::iscsi::to_characters(octets));
  return 0;
}
