#include "sriov/alias_guids.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/assert.h"
#include "sriov/transaction_ids.h"
#include "wire/mad/component_mask.h"
#include "wire/mad/sa_table_records.h"

namespace weft::sriov {
namespace {

using enum AliasGuidState;
using wire::GuidInfoRecord;

constexpr std::uint16_t kBlock = 8;

struct Row {
  AliasGuidState state;
  AliasGuidInput input;
  AliasGuidState next;
};

constexpr auto kRows = std::to_array<Row>({
    {Unset,       AliasGuidInput::Assign,     Pending    },
    {Pending,     AliasGuidInput::Assign,     Pending    },
    {Pending,     AliasGuidInput::Withdraw,   Withdrawing},
    {Pending,     AliasGuidInput::Send,       Requested  },
    {Requested,   AliasGuidInput::Assign,     Pending    },
    {Requested,   AliasGuidInput::Withdraw,   Withdrawing},
    {Requested,   AliasGuidInput::Accept,     Valid      },
    {Requested,   AliasGuidInput::Decline,    Declined   },
    {Requested,   AliasGuidInput::Reregister, Pending    },
    {Requested,   AliasGuidInput::PortUp,     Pending    },
    {Valid,       AliasGuidInput::Assign,     Pending    },
    {Valid,       AliasGuidInput::Withdraw,   Withdrawing},
    {Valid,       AliasGuidInput::Reregister, Pending    },
    {Declined,    AliasGuidInput::Assign,     Pending    },
    {Declined,    AliasGuidInput::Withdraw,   Withdrawing},
    {Declined,    AliasGuidInput::Retry,      Pending    },
    {Declined,    AliasGuidInput::Reregister, Pending    },
    {Declined,    AliasGuidInput::PortUp,     Pending    },
    {Withdrawing, AliasGuidInput::Assign,     Pending    },
    {Withdrawing, AliasGuidInput::Accept,     Unset      },
    {Withdrawing, AliasGuidInput::PortUp,     Withdrawing},
});

/// The component of the first GUID of a block; those of the others follow.
constexpr std::uint64_t kFirstGuid = wire::kComponent<GuidInfoRecord, "GUID">;

[[nodiscard]] std::uint8_t block_of(FunctionId function) {
  return static_cast<std::uint8_t>(function.value() / kBlock);
}

}  // namespace

std::string_view name_of(AliasGuidState state) {
  switch (state) {
    case Unset:
      return "unset";
    case Pending:
      return "pending";
    case Requested:
      return "requested";
    case Valid:
      return "valid";
    case Declined:
      return "declined";
    case Withdrawing:
      return "withdrawing";
  }
  return {};
}

std::optional<AliasGuidState> next_state(AliasGuidState state, AliasGuidInput input) {
  for (const Row& row : kRows) {
    if (row.state == state && row.input == input) {
      return row.next;
    }
  }
  return std::nullopt;
}

bool AliasGuids::apply(FunctionId function, AliasGuidInput input) {
  Record& record = records_[function];
  const auto next = next_state(record.state, input);
  if (!next) {
    return false;
  }
  record.state = *next;
  if (input == AliasGuidInput::Assign || input == AliasGuidInput::Withdraw ||
      input == AliasGuidInput::Reregister || input == AliasGuidInput::PortUp) {
    ++record.version;
    record.backoff = {};
    record.retry_at = {};
  }
  return true;
}

void AliasGuids::tell(FunctionId function, Guid guid) {
  Record& record = records_[function];
  if (record.value != guid) {
    record.value = guid;
    changes_.push_back({.function = function, .guid = guid});
  }
}

Result<void> AliasGuids::set(FunctionId function, Guid admin, Instant /*now*/) {
  if (function == kPhysicalFunction || function.value() >= kMostFunctions) {
    return fail(ErrorCode::InvalidArgument, "function {} has no alias GUID", function.value());
  }
  Record& record = records_[function];
  if (record.admin == admin && record.state != Unset) {
    return {};
  }
  record.admin = admin;
  const bool is_delete = admin == kGuidDelete;
  apply(function, is_delete ? AliasGuidInput::Withdraw : AliasGuidInput::Assign);
  tell(function, Guid{});
  return {};
}

void AliasGuids::postpone(FunctionId function, Instant until) {
  if (const auto found = records_.find(function);
      found != records_.end() && found->second.state == Pending) {
    found->second.retry_at = until;
  }
}

void AliasGuids::reregister_all(Instant /*now*/) {
  for (const auto& [function, record] : records_) {
    apply(function, AliasGuidInput::Reregister);
  }
}

void AliasGuids::handle_port_up() {
  requests_.clear();
  for (const auto& [function, record] : records_) {
    apply(function, AliasGuidInput::PortUp);
  }
}

bool AliasGuids::has_request(std::uint8_t block) const {
  return std::ranges::any_of(requests_,
                             [&](const auto& entry) { return entry.second.block == block; });
}

std::optional<wire::SaMad> AliasGuids::poll_transmit(Instant now) {
  for (const auto& [function, record] : records_) {
    const bool wants = record.state == Pending || record.state == Withdrawing;
    if (wants && record.retry_at <= now && !has_request(block_of(function))) {
      return make_request(block_of(function), now);
    }
  }
  return std::nullopt;
}

std::optional<wire::SaMad> AliasGuids::make_request(std::uint8_t block, Instant now) {
  Request request;
  request.block = block;
  request.due = now + limits_.timeout;
  GuidInfoRecord asked{.lid = lid_, .block = block};
  std::uint64_t mask =
      wire::kComponent<GuidInfoRecord, "LID"> | wire::kComponent<GuidInfoRecord, "BlockNum">;
  // What is to be deleted goes first, since its GUID may be wanted by another entry.
  const auto collect = [&](AliasGuidState state) {
    for (auto& [function, record] : records_) {
      if (block_of(function) != block || record.state != state || record.retry_at > now) {
        continue;
      }
      const std::size_t index = function.value() % kBlock;
      asked.guid_info.guids[index] = state == Withdrawing ? Guid{} : record.admin;
      mask |= kFirstGuid << index;
      request.versions[function] = record.version;
    }
  };
  collect(Withdrawing);
  request.is_delete = !request.versions.empty();
  if (!request.is_delete) {
    collect(Pending);
    for (const auto& [function, version] : request.versions) {
      apply(function, AliasGuidInput::Send);
    }
  }
  wire::SaMad mad;
  const std::uint64_t transaction_id = with_tag(kAliasGuidTag, ++last_transaction_);
  mad.sa.header.method = request.is_delete ? wire::MadMethod::Delete : wire::MadMethod::Set;
  mad.sa.header.attribute_id = static_cast<std::uint16_t>(wire::SaAttribute::GuidInfoRecord);
  mad.sa.header.transaction_id = transaction_id;
  mad.sa.component_mask = mask;
  wire::pack(asked, std::span{mad.data}.first<wire::kSizeOf<GuidInfoRecord>>());
  requests_.emplace(transaction_id, std::move(request));
  return mad;
}

bool AliasGuids::handle_answer(const wire::SaMad& answer, Instant now) {
  const auto found = requests_.find(answer.sa.header.transaction_id);
  if (found == requests_.end()) {
    return tag_of(answer.sa.header.transaction_id) == kAliasGuidTag;  // late
  }
  const auto& header = answer.sa.header;
  const auto wanted =
      found->second.is_delete ? wire::MadMethod::DeleteResp : wire::MadMethod::GetResp;
  if (header.method != wanted ||
      header.attribute_id != static_cast<std::uint16_t>(wire::SaAttribute::GuidInfoRecord)) {
    return true;
  }
  const Request request = found->second;
  requests_.erase(found);
  end(request, &answer, now);
  return true;
}

void AliasGuids::end(const Request& request, const wire::SaMad* answer, Instant now) {
  GuidInfoRecord record;
  if (answer != nullptr) {
    record = wire::unpack<GuidInfoRecord>(
        std::span{answer->data}.first<wire::kSizeOf<GuidInfoRecord>>());
  }
  const bool is_success = answer != nullptr && answer->sa.header.status == 0;
  for (const auto& [function, version] : request.versions) {
    const Record& own = records_[function];
    if (own.version != version) {
      continue;  // changed since; it is asked again
    }
    if (request.is_delete) {
      if (answer != nullptr) {  // an error says that SA does not have it
        apply(function, AliasGuidInput::Accept);
      } else {
        decline(function, now);
      }
      continue;
    }
    const Guid told = record.guid_info.guids[function.value() % kBlock];
    const bool is_as_wanted = own.admin == kGuidByManager ? told != Guid{} : told == own.admin;
    if (is_success && is_as_wanted && apply(function, AliasGuidInput::Accept)) {
      records_[function].backoff = {};
      tell(function, told);
    } else {
      decline(function, now);
    }
  }
}

void AliasGuids::decline(FunctionId function, Instant now) {
  apply(function, AliasGuidInput::Decline);
  Record& record = records_[function];
  record.backoff = record.backoff == Duration{} ? limits_.retry
                                                : std::min(record.backoff * 2, limits_.retry_max);
  record.retry_at = now + record.backoff;
  tell(function, Guid{});
}

void AliasGuids::handle_timeout(Instant now) {
  std::vector<Request> overdue;
  for (const auto& [transaction_id, request] : requests_) {
    if (request.due <= now) {
      overdue.push_back(request);
    }
  }
  std::erase_if(requests_, [&](const auto& entry) { return entry.second.due <= now; });
  for (const Request& request : overdue) {
    end(request, nullptr, now);
  }
  for (const auto& [function, record] : records_) {
    if (record.state == Declined && record.retry_at <= now) {
      apply(function, AliasGuidInput::Retry);
    }
  }
}

Instant AliasGuids::poll_deadline() const {
  Instant first = Instant::never();
  for (const auto& [transaction_id, request] : requests_) {
    first = std::min(first, request.due);
  }
  for (const auto& [function, record] : records_) {
    const bool waits =
        record.state == Declined || record.state == Pending || record.state == Withdrawing;
    if (waits && !has_request(block_of(function))) {
      first = std::min(first, record.retry_at);
    }
  }
  return first;
}

std::optional<AliasGuids::Change> AliasGuids::poll_change() {
  if (changes_.empty()) {
    return std::nullopt;
  }
  const Change change = changes_.front();
  changes_.pop_front();
  return change;
}

AliasGuidState AliasGuids::state(FunctionId function) const {
  const auto found = records_.find(function);
  return found == records_.end() ? Unset : found->second.state;
}

Guid AliasGuids::guid_of(FunctionId function) const {
  const auto found = records_.find(function);
  return found != records_.end() && found->second.state == Valid ? found->second.value : Guid{};
}

Guid AliasGuids::admin_guid_of(FunctionId function) const {
  const auto found = records_.find(function);
  return found == records_.end() ? kGuidDelete : found->second.admin;
}

void AliasGuids::check_invariants() const {
  for (const auto& [function, record] : records_) {
    WEFT_ASSERT(record.state != Valid || record.value != Guid{}, "a valid GUID is not 0");
    WEFT_ASSERT(record.state != Unset || record.admin == kGuidDelete, "a wanted GUID is asked for");
  }
  std::map<std::uint8_t, unsigned> of_block;
  for (const auto& [transaction_id, request] : requests_) {
    WEFT_ASSERT(++of_block[request.block] == 1, "one request at a time for each block");
  }
}

}  // namespace weft::sriov
