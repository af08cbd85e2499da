#include "sim/cm_exchanges.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::sim {

using wire::SidrStatus;

void CmExchanges::fail(Token token, std::string_view what) {
  verdict_.fail(fmt::format("connection {}: {}", token, what));
}

CmExchanges::Path* CmExchanges::path(Token token, std::uint8_t number, std::string_view what) {
  const auto found = paths_.find(token);
  if (found == paths_.end() || number == 0 || number > found->second.size()) {
    fail(token, fmt::format("{} path {}, which was never requested", what, number));
    return nullptr;
  }
  return &found->second[number - 1];
}

std::uint8_t CmExchanges::path_requested(Token token) {
  auto& paths = paths_[token];
  paths.push_back({});
  return static_cast<std::uint8_t>(paths.size());
}

void CmExchanges::path_request_received(Token token, std::uint8_t number, const cm::Path& path) {
  Path* const asked = this->path(token, number, "a LAP for");
  if (asked == nullptr) {
    return;
  }
  if (asked->is_reported) {
    return fail(token, fmt::format("the LAP for path {} was reported twice", number));
  }
  asked->is_reported = true;
  if (path.sl.value() != number) {
    fail(token, fmt::format("the LAP for path {} tells of another path", number));
  }
}

void CmExchanges::path_answered(Token token, std::uint8_t number, bool is_accepted) {
  if (Path* const asked = path(token, number, "an answer to")) {
    asked->is_accepted = is_accepted;
  }
}

void CmExchanges::path_answer_received(Token token, std::uint8_t current, std::uint8_t number,
                                       bool is_accepted) {
  Path* const asked = path(token, number, "an APR for");
  if (asked == nullptr) {
    return;
  }
  if (number != current || asked->is_delivered) {
    return fail(token, fmt::format("an APR for path {} comes after that for it", number));
  }
  asked->is_delivered = true;
  if (asked->is_accepted != is_accepted) {
    fail(token, fmt::format("the APR for path {} differs from the answer of its user", number));
  }
}

/// The loaded path must be the last accepted one. The requesting side does not know of an answer
/// before it arrives.
void CmExchanges::path_loaded(Token token, CmSide side, const std::optional<cm::Path>& alternate) {
  unsigned expected = 0;
  const auto& paths = paths_[token];
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const bool is_known = side == CmSide::Server || paths[i].is_delivered;
    expected = paths[i].is_accepted == true && is_known ? static_cast<unsigned>(i + 1) : expected;
  }
  const unsigned loaded = alternate ? alternate->sl.value() : 0;
  if (loaded != expected) {
    return fail(token, fmt::format("path {} is loaded instead of {}", loaded, expected));
  }
  paths_loaded_ += side == CmSide::Client && loaded != 0 ? 1 : 0;
}

void CmExchanges::lookup_requested(Token token, std::uint32_t host, bool is_offered) {
  lookups_[token] = {.host = host, .is_offered = is_offered};
}

void CmExchanges::lookup_request_received(Token token) {
  Lookup& lookup = lookups_.at(token);
  if (lookup.is_pending) {
    fail(token, "a SIDR_REQ was reported again before it was answered");
  }
  lookup.is_pending = true;
}

void CmExchanges::lookup_answered(Token token, const cm::SidrRepReceived& answer) {
  Lookup& lookup = lookups_.at(token);
  lookup.is_pending = false;
  lookup.answers.push_back(answer);
}

void CmExchanges::lookup_abandoned(Token token) {
  Lookup& lookup = lookups_.at(token);
  lookup.is_pending = false;
  lookup.is_left = true;
}

void CmExchanges::lookup_answer_received(Token token, const cm::SidrRepReceived& answer) {
  Lookup& lookup = lookups_.at(token);
  if (lookup.is_delivered) {
    return fail(token, "a SIDR_REQ is answered twice");
  }
  lookup.is_delivered = true;
  const auto is_same = [&](const cm::SidrRepReceived& given) {
    return given.status == answer.status && given.qpn == answer.qpn && given.qkey == answer.qkey;
  };
  if (std::ranges::any_of(lookup.answers, is_same)) {
    lookups_made_ += answer.status == SidrStatus::Success ? 1 : 0;
    return;
  }
  const bool nobody_listened = !lookup.is_offered || without_program_.contains(lookup.host);
  const bool was_left = lookup.is_left || without_program_.contains(lookup.host);
  const bool is_legal = answer.status == SidrStatus::Unsupported
                            ? nobody_listened
                            : answer.status == SidrStatus::Rejected && was_left;
  if (!is_legal) {
    fail(token, fmt::format("a SIDR_REP with status {} and QPN {:#x}, which no user sent",
                            static_cast<unsigned>(answer.status), answer.qpn.value()));
  }
}

}  // namespace weft::sim
