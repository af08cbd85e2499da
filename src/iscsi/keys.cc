#include "iscsi/keys.h"

#include <algorithm>
#include <array>

namespace weft::iscsi {
namespace {

constexpr std::uint32_t kMaxLength = 0xFF'FFFF;
using P = Parameters;
using enum KeyRule;
using enum KeyUse;
using enum KeySender;

// clang-format off
constexpr auto kKeys = std::to_array<KeyRow>({
    {"AuthMethod",               Security,  Initialize,  Both,      true },
    {"CHAP_A",                   Security,  Initialize,  Both,      true },
    {"CHAP_I",                   Security,  Initialize,  Both,      true },
    {"CHAP_C",                   Security,  Initialize,  Both,      true },
    {"CHAP_N",                   Security,  Initialize,  Both,      true },
    {"CHAP_R",                   Security,  Initialize,  Both,      true },
    {"HeaderDigest",             Digest,    Initialize,  Both,      true,  0,   0,          nullptr,                       &P::header_digest         },
    {"DataDigest",               Digest,    Initialize,  Both,      true,  0,   0,          nullptr,                       &P::data_digest           },
    {"MaxConnections",           Smaller,   Leading,     Both,      false, 1,   65535,      &P::max_connections},
    {"SendTargets",              Declared,  FullFeature, Initiator, true },
    {"TargetName",               Declared,  Initialize,  Both,      true },
    {"InitiatorName",            Declared,  Initialize,  Initiator, true },
    {"TargetAlias",              Declared,  Any,         Target,    true },
    {"InitiatorAlias",           Declared,  Any,         Initiator, true },
    {"TargetAddress",            Declared,  Any,         Target,    true },
    {"TargetPortalGroupTag",     Declared,  Initialize,  Target,    true },
    {"InitialR2T",               Or,        Leading,     Both,      false, 0,   0,          nullptr,                       &P::initial_r2t           },
    {"ImmediateData",            And,       Leading,     Both,      false, 0,   0,          nullptr,                       &P::immediate_data        },
    {"MaxRecvDataSegmentLength", Declared,  Any,         Both,      true,  512, kMaxLength, &P::max_recv_data_segment_length},
    {"MaxBurstLength",           Smaller,   Leading,     Both,      false, 512, kMaxLength, &P::max_burst_length},
    {"FirstBurstLength",         Smaller,   Leading,     Both,      false, 512, kMaxLength, &P::first_burst_length},
    {"DefaultTime2Wait",         Larger,    Leading,     Both,      true,  0,   3600,       &P::default_time2wait},
    {"DefaultTime2Retain",       Smaller,   Leading,     Both,      true,  0,   3600,       &P::default_time2retain},
    {"MaxOutstandingR2T",        Smaller,   Leading,     Both,      false, 1,   65535,      &P::max_outstanding_r2t},
    {"DataPDUInOrder",           Or,        Leading,     Both,      false, 0,   0,          nullptr,                       &P::data_pdu_in_order     },
    {"DataSequenceInOrder",      Or,        Leading,     Both,      false, 0,   0,          nullptr,                       &P::data_sequence_in_order},
    {"ErrorRecoveryLevel",       Smaller,   Leading,     Both,      true,  0,   2,          &P::error_recovery_level},
    {"SessionType",              Declared,  Leading,     Initiator, true },
    {"TaskReporting",            Reporting, Leading,     Both,      false},
    {"iSCSIProtocolLevel",       Smaller,   Leading,     Both,      false, 0,   31,         &P::protocol_level},
    {"NodeArchitecture",         Declared,  Any,         Both,      true },
    {"RDMAExtensions",           And,       Leading,     Both,      true,  0,   0,          nullptr,                       &P::rdma_extensions       },
    {"iSERHelloRequired",        Announced, Leading,     Initiator, true,  0,   0,          nullptr,                       nullptr,                  &P::hello_required},
    {"TargetRecvDataSegmentLength",    Smaller, Initialize, Target, false, 512, kMaxLength, &P::target_recv_data_segment_length},
    {"InitiatorRecvDataSegmentLength", Smaller, Initialize, Target, false, 512, kMaxLength, &P::initiator_recv_data_segment_length},
    {"IFMarker",                 Marker,    Initialize,  Both,      true },
    {"OFMarker",                 Marker,    Initialize,  Both,      true },
    {"IFMarkInt",                Rejected,  Initialize,  Both,      true },
    {"OFMarkInt",                Rejected,  Initialize,  Both,      true },
});
// clang-format on

[[nodiscard]] consteval bool names_are_unique() {
  for (std::size_t i = 0; i < kKeys.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (kKeys[i].name == kKeys[j].name) {
        return false;
      }
    }
  }
  return true;
}
static_assert(names_are_unique());

[[nodiscard]] consteval bool rows_name_their_member() {
  for (const KeyRow& row : kKeys) {
    const bool is_number = row.rule == Smaller || row.rule == Larger;
    const bool is_flag = row.rule == And || row.rule == Or || row.rule == KeyRule::Digest;
    const bool is_announced = row.rule == Announced;
    if ((is_number && row.number == nullptr) || (is_flag && row.flag == nullptr) ||
        (is_announced && row.announced == nullptr)) {
      return false;
    }
  }
  return true;
}
static_assert(rows_name_their_member());

}  // namespace

const KeyRow* find_key(std::string_view name) {
  const auto found = std::ranges::find(kKeys, name, &KeyRow::name);
  return found == kKeys.end() ? nullptr : &*found;
}

}  // namespace weft::iscsi
