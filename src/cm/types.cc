#include "cm/types.h"

#include <array>
#include <cstddef>

#include "cm/events.h"

namespace weft::cm {

std::string_view name_of(State state) {
  static constexpr std::array<std::string_view, kStateCount> kNames = {
      "IDLE",         "LISTEN",    "REQ_SENT", "REQ_RCVD",      "MRA_REQ_SENT",
      "MRA_REQ_RCVD", "REP_SENT",  "REP_RCVD", "MRA_REP_SENT",  "MRA_REP_RCVD",
      "ESTABLISHED",  "LAP_SENT",  "LAP_RCVD", "MRA_LAP_SENT",  "MRA_LAP_RCVD",
      "DREQ_SENT",    "DREQ_RCVD", "TIMEWAIT", "SIDR_REQ_SENT", "SIDR_REQ_RCVD"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view name_of(CmEventType type) {
  static constexpr std::array<std::string_view, 18> kNames = {
      "REQ_RECEIVED",      "REQ_TIMEOUT",      "REP_RECEIVED",     "REP_TIMEOUT",   "RTU_RECEIVED",
      "USER_ESTABLISHED",  "DREQ_RECEIVED",    "DREQ_TIMEOUT",     "DREP_RECEIVED", "TIMEWAIT_EXIT",
      "MRA_RECEIVED",      "REJ_RECEIVED",     "LAP_RECEIVED",     "LAP_TIMEOUT",   "APR_RECEIVED",
      "SIDR_REQ_RECEIVED", "SIDR_REQ_TIMEOUT", "SIDR_REP_RECEIVED"};
  return kNames[static_cast<std::size_t>(type)];
}

}  // namespace weft::cm
