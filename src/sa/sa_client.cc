#include "sa/sa_client.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "wire/mad/component_mask.h"

namespace weft::sa {
namespace {

using wire::kComponent;
using wire::PathRecord;

constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::SaHeader>;

[[nodiscard]] std::unexpected<QueryError> query_error(QueryFailure failure, std::string reason,
                                                      std::uint16_t status = 0) {
  return std::unexpected(
      QueryError{.failure = failure, .status = status, .reason = std::move(reason)});
}

/// Converts an SA status; the management interface returns it unchanged (R-MI-4).
[[nodiscard]] std::unexpected<QueryError> refusal(wire::SaAttribute attribute,
                                                  std::uint16_t status) {
  const bool is_no_records = status == static_cast<std::uint16_t>(wire::SaStatus::NoRecords);
  if (is_no_records && attribute == wire::SaAttribute::PathRecord) {
    return query_error(QueryFailure::NoPath,
                       "subnet administration has no path to the destination (0x0300)", status);
  }
  if (is_no_records && attribute == wire::SaAttribute::McMemberRecord) {
    return query_error(QueryFailure::NoGroup,
                       "subnet administration has no such multicast group (0x0300)", status);
  }
  return query_error(QueryFailure::Refused,
                     fmt::format("subnet administration returned status {:#06x}", status), status);
}

/// Methods by which a single record is read, registered or deleted.
Result<void> check_record_method(wire::MadMethod method, std::string_view record) {
  if (method != wire::MadMethod::Get && method != wire::MadMethod::Set &&
      method != wire::MadMethod::Delete) {
    return fail(ErrorCode::InvalidArgument,
                "method {:#x} of a {}; Get, Set and Delete are possible",
                static_cast<unsigned>(method), record);
  }
  return {};
}

[[nodiscard]] wire::SaHeader header_of(const mad::MadMessage& message) {
  return wire::unpack<wire::SaHeader>(std::span{message.mad}.first<kHeaderBytes>());
}

}  // namespace

SaClient::SaClient(mad::ManagementInterface& gsi, const SaClientLimits& limits,
                   std::function<void()> on_due)
    : gsi_(gsi),
      limits_(limits),
      on_due_(std::move(on_due)),
      paths_(limits.cached_paths, limits.path_age) {
  const auto agent = gsi_.register_agent({.mgmt_class = wire::ManagementClass::SubnAdm,
                                          .class_version = wire::kSaClassVersion,
                                          .name = "SA client"},
                                         nullptr);
  agent_ = agent.value_or(mad::AgentId{});  // if registration failed, each send fails
  snooper_ = gsi_.add_snooper([this](mad::ManagementInterface::Direction way,
                                     const mad::MadAddress& address, ByteSpan mad) {
    if (way == mad::ManagementInterface::Direction::Received) {
      note_received(address, mad);
    }
  });
}

SaClient::~SaClient() {
  gsi_.remove_snooper(snooper_);
  for (const auto& [id, query] : queries_) {
    if (query.question) {
      path_source_->cancel(*query.question);
    }
  }
  queries_.clear();  // the interface still completes their transactions
  for (const auto& agent : {std::optional{agent_}, report_agent_}) {
    if (agent) {
      static_cast<void>(gsi_.unregister_agent(*agent, Instant{}));
    }
  }
}

/// Fails if so many further queries cannot be started now.
Result<void> SaClient::check_can_query(std::size_t queries) const {
  if (!port_.is_active()) {
    return fail(ErrorCode::TryAgain,
                "the port is not Active, so subnet administration cannot be "
                "asked");
  }
  if (!port_.can_query()) {
    return fail(ErrorCode::TryAgain, "the port has no subnet manager yet");
  }
  if (queries_.size() + queries > limits_.queries) {
    return fail(ErrorCode::OutOfMemory, "{} SA queries are in progress, which is the limit",
                limits_.queries);
  }
  return {};
}

void SaClient::post(std::function<void(Instant)> call) {
  calls_.push_back(std::move(call));
  if (on_due_) {
    on_due_();
  }
}

Result<QueryId> SaClient::start(Request request, const QueryOptions& options, RawHandler handler,
                                Instant now) {
  if (auto checked = check_can_query(); !checked) {
    return std::unexpected(checked.error());
  }
  if (options.timeout <= Duration{} || options.tries == 0) {
    return fail(ErrorCode::InvalidArgument, "a query needs time and at least one try");
  }
  const QueryId id{++last_query_};
  Query query{.request = std::move(request),
              .options = options,
              .end = now + options.timeout,
              .transaction = {},
              .waits_for = {},
              .question = {},
              .asks_for = {},
              .handler = std::move(handler)};
  const auto known = known_to_source(query, now);
  if (!known && !ask_source(id, query, now)) {
    if (auto asked = send_query(id, query, now); !asked) {
      return std::unexpected(asked.error());
    }
    ends_.emplace(query.end, id);
  }
  ++counters_.queries;
  queries_.emplace(id, std::move(query));
  if (known) {
    take_from_source(id, known, now);
  }
  return id;
}

/// Sends the request to the current SM. The remaining time is divided into retries of equal length
/// (R-SA-4).
Result<void> SaClient::send_query(QueryId id, Query& query, Instant now) {
  mad::MadMessage message;
  wire::SaHeader header{.component_mask = query.request.mask};
  header.header.method = query.request.method;
  header.header.attribute_id = static_cast<std::uint16_t>(query.request.attribute);
  wire::pack(header, std::span{message.mad}.first<kHeaderBytes>());
  copy_bytes(std::span{message.mad}.subspan(kHeaderBytes), query.request.record);
  const Duration per_try = (query.end - now) / query.options.tries;
  const mad::TransactionOptions options{
      .timeout = std::max(per_try, Duration::nanoseconds(1)),
      .retries = query.options.tries - 1,
      .doubles_timeout = false,
  };
  const auto transaction = gsi_.send(
      agent_, subnet_manager(), std::move(message), options,
      [this, id](const mad::Completion& completion) { complete(id, completion); }, now);
  if (!transaction) {
    return std::unexpected(transaction.error());
  }
  query.transaction = *transaction;
  if (on_due_) {
    on_due_();
  }
  return {};
}

mad::MadAddress SaClient::subnet_manager() const {
  return {.lid = port_.sm_lid, .sl = port_.sm_sl, .pkey = port_.management_pkey()};
}

/// Completion of a transaction. Called from inside the interface, so the handler is deferred.
void SaClient::complete(QueryId id, const mad::Completion& completion) {
  const auto found = queries_.find(id);
  if (found == queries_.end() || found->second.transaction != completion.transaction) {
    return;  // already completed for another reason
  }
  const Request& request = found->second.request;
  switch (completion.status) {
    case mad::TransactionStatus::Answered:
      break;
    case mad::TransactionStatus::TimedOut:
      return finish(id,
                    query_error(QueryFailure::TimedOut, "subnet administration has not answered"));
    case mad::TransactionStatus::Cancelled:
      return finish(id, query_error(QueryFailure::Cancelled, "cancelled"));
    case mad::TransactionStatus::Sent:
    case mad::TransactionStatus::RmppFailed:
      return finish(id,
                    query_error(QueryFailure::NotSent, "the segments of the answer were given up"));
  }
  const mad::MadMessage& answer = *completion.answer;
  const wire::SaHeader header = header_of(answer);
  if (header.header.attribute_id != static_cast<std::uint16_t>(request.attribute) ||
      header.header.method != mad::response_method(request.method)) {
    return finish(id, query_error(QueryFailure::BadAnswer, "an answer to another question"));
  }
  if (const std::uint16_t status = answer.status(); status != 0) {
    return finish(id, refusal(request.attribute, status));
  }
  RawRecords records;
  if (answer.is_rmpp || request.method == wire::MadMethod::GetTable) {
    records.record_bytes = std::size_t{header.attribute_offset} * 8;
    records.data = answer.is_rmpp ? answer.data : std::vector<std::byte>{};
  } else {
    records.data.assign(answer.mad.begin() + kHeaderBytes, answer.mad.end());
    records.record_bytes = records.data.size();
  }
  finish(id, std::move(records));
}

/// Completes a query; its handler is called by handle_timeout.
void SaClient::finish(QueryId id, RawAnswer answer) {
  Query& query = queries_.at(id);
  ends_.erase({query.end, id});
  query.transaction.reset();
  if (answer) {
    ++counters_.answered;
  } else if (answer.error().failure == QueryFailure::Refused) {
    ++counters_.refused;
  } else if (answer.error().failure == QueryFailure::TimedOut) {
    ++counters_.timed_out;
  }
  post([this, id, reported = std::move(answer)](Instant now) {
    auto over = queries_.extract(id);
    if (!over.empty() && over.mapped().handler) {
      over.mapped().handler(id, reported, now);
    }
  });
}

Result<QueryId> SaClient::get_paths(Kind kind, const PathRecord& wanted, std::uint64_t mask,
                                    const QueryOptions& options, RecordsHandler<PathRecord> handler,
                                    Instant now) {
  return query(kind == Kind::Get ? wire::MadMethod::Get : wire::MadMethod::GetTable,
               wire::SaAttribute::PathRecord, wanted, mask, options, std::move(handler), now);
}

Result<QueryId> SaClient::get_members(Kind kind, const wire::McMemberRecord& wanted,
                                      std::uint64_t mask, const QueryOptions& options,
                                      RecordsHandler<wire::McMemberRecord> handler, Instant now) {
  return query(kind == Kind::Get ? wire::MadMethod::Get : wire::MadMethod::GetTable,
               wire::SaAttribute::McMemberRecord, wanted, mask, options, std::move(handler), now);
}

Result<QueryId> SaClient::get_nodes(Kind kind, const wire::NodeRecord& wanted, std::uint64_t mask,
                                    const QueryOptions& options,
                                    RecordsHandler<wire::NodeRecord> handler, Instant now) {
  return query(kind == Kind::Get ? wire::MadMethod::Get : wire::MadMethod::GetTable,
               wire::SaAttribute::NodeRecord, wanted, mask, options, std::move(handler), now);
}

Result<QueryId> SaClient::get_services(Kind kind, const wire::ServiceRecord& wanted,
                                       std::uint64_t mask, const QueryOptions& options,
                                       RecordsHandler<wire::ServiceRecord> handler, Instant now) {
  return query(kind == Kind::Get ? wire::MadMethod::Get : wire::MadMethod::GetTable,
               wire::SaAttribute::ServiceRecord, wanted, mask, options, std::move(handler), now);
}

Result<QueryId> SaClient::query_service(wire::MadMethod method, const wire::ServiceRecord& record,
                                        std::uint64_t mask, const QueryOptions& options,
                                        RecordsHandler<wire::ServiceRecord> handler, Instant now) {
  if (auto checked = check_record_method(method, wire::ServiceRecord::kName); !checked) {
    return std::unexpected(checked.error());
  }
  return query(method, wire::SaAttribute::ServiceRecord, record, mask, options, std::move(handler),
               now);
}

Result<QueryId> SaClient::query_guid_info(wire::MadMethod method,
                                          const wire::GuidInfoRecord& record, std::uint64_t mask,
                                          const QueryOptions& options,
                                          RecordsHandler<wire::GuidInfoRecord> handler,
                                          Instant now) {
  if (auto checked = check_record_method(method, wire::GuidInfoRecord::kName); !checked) {
    return std::unexpected(checked.error());
  }
  return query(method, wire::SaAttribute::GuidInfoRecord, record, mask, options, std::move(handler),
               now);
}

Result<QueryId> SaClient::start_path_query(const PathQuery& path_query, const QueryOptions& options,
                                           Instant now) {
  PathRecord wanted{.dgid = path_query.dgid,
                    .sgid = path_query.sgid,
                    .tclass = path_query.tclass,
                    .reversible = path_query.is_reversible,
                    .path_count = 1,
                    .pkey = path_query.pkey,
                    .qos_class = path_query.qos_class};
  wanted.set_service_id(path_query.service_id);
  std::uint64_t mask = kComponent<PathRecord, "DGID"> | kComponent<PathRecord, "SGID"> |
                       kComponent<PathRecord, "NumbPath">;
  mask |= path_query.is_reversible ? kComponent<PathRecord, "Reversible"> : 0;
  mask |= path_query.pkey.value() != 0 ? kComponent<PathRecord, "P_Key"> : 0;
  mask |= path_query.tclass != 0 ? kComponent<PathRecord, "TClass"> : 0;
  mask |= path_query.qos_class != 0 ? kComponent<PathRecord, "QoSClass"> : 0;
  mask |= path_query.service_id != 0
              ? kComponent<PathRecord, "ServiceID8MSB"> | kComponent<PathRecord, "ServiceID56LSB">
              : 0;
  return get_paths(
      Kind::Get, wanted, mask, options,
      [this, path_query](QueryId id, const Answer<std::vector<PathRecord>>& paths, Instant at) {
        take_path(id, path_query, paths, at);
      },
      now);
}

Result<QueryId> SaClient::resolve_path(const PathQuery& asked, const QueryOptions& options,
                                       PathHandler handler, Instant now) {
  constexpr std::size_t kUserAndQuestion = 2;
  if (auto checked = check_can_query(kUserAndQuestion); !checked) {
    return std::unexpected(checked.error());
  }
  PathQuery path_query = asked;
  if (path_query.sgid.is_zero()) {
    path_query.sgid = port_.gids.front();
  }
  const QueryId id{++last_query_};
  if (const auto known = paths_.find(path_query, now)) {
    ++counters_.cached;
    queries_.emplace(id, Query{.end = now});
    post([this, id, path = *known, handler = std::move(handler)](Instant at) {
      queries_.erase(id);
      handler(id, path, at);
    });
    return id;
  }
  auto question = path_queries_.find(path_query);
  if (question == path_queries_.end()) {
    const auto query = start_path_query(path_query, options, now);
    if (!query) {
      return std::unexpected(query.error());
    }
    queries_.at(*query).asks_for = path_query;
    question =
        path_queries_.emplace(path_query, PendingPathQuery{.query = *query, .users = {}}).first;
  } else {
    ++counters_.coalesced;
  }
  question->second.users.emplace(id, std::move(handler));
  Query waiting{.options = options, .end = now + options.timeout};
  waiting.waits_for = path_query;
  if (is_asking_source(question->second.query)) {
    waiting.end = Instant::never();  // until SA is asked
  } else {
    ends_.emplace(waiting.end, id);
  }
  queries_.emplace(id, std::move(waiting));
  return id;
}

/// Completes a path query for all its users. If it timed out earlier than some of them require, it
/// is repeated for these.
void SaClient::take_path(QueryId query, const PathQuery& path_query,
                         const Answer<std::vector<PathRecord>>& paths, Instant now) {
  Answer<PathRecord> reported = query_error(QueryFailure::BadAnswer, "a path to somewhere else");
  if (!paths) {
    reported = std::unexpected(paths.error());
  } else if (paths->front().dgid == path_query.dgid && paths->front().sgid == path_query.sgid) {
    reported = paths->front();
    paths_.put(path_query, *reported, now);
    subscribe_to_gids(now);
  }
  const auto question = path_queries_.find(path_query);
  if (question == path_queries_.end() || question->second.query != query) {
    return;  // all users have cancelled
  }
  Instant latest = now;
  for (const auto& [id, handler] : question->second.users) {
    latest = std::max(latest, queries_.at(id).end);
  }
  if (!reported && reported.error().failure == QueryFailure::TimedOut && latest > now) {
    if (const auto again =
            start_path_query(path_query, {.timeout = latest - now, .asks_source = false}, now)) {
      queries_.at(*again).asks_for = path_query;
      question->second.query = *again;
      return;
    }
  }
  auto over = path_queries_.extract(question);
  for (auto& [id, handler] : over.mapped().users) {
    ends_.erase({queries_.at(id).end, id});
    queries_.erase(id);
    post([id, reported, user = std::move(handler)](Instant at) { user(id, reported, at); });
  }
}

/// Removes a user from a path query; the last one cancels it.
void SaClient::leave_path_query(QueryId id, const PathQuery& path_query, Instant now) {
  const auto question = path_queries_.find(path_query);
  if (question == path_queries_.end()) {
    return;
  }
  question->second.users.erase(id);
  if (question->second.users.empty()) {
    const QueryId query = question->second.query;
    path_queries_.erase(question);
    cancel(query, now);
  }
}

void SaClient::cancel(QueryId id, Instant now) {
  const auto found = queries_.find(id);
  if (found == queries_.end()) {
    return;
  }
  if (found->second.transaction) {
    static_cast<void>(gsi_.cancel(*found->second.transaction, now));
    return;
  }
  if (found->second.question) {
    end_question(id, {.failure = QueryFailure::Cancelled, .reason = "cancelled"});
    return;
  }
  if (!found->second.waits_for) {
    return;  // already answered; the handler call is pending
  }
  const PathQuery path_query = *found->second.waits_for;
  const auto question = path_queries_.find(path_query);
  PathHandler handler = std::move(question->second.users.at(id));
  ends_.erase({found->second.end, id});
  queries_.erase(found);
  leave_path_query(id, path_query, now);
  post([id, handler = std::move(handler)](Instant at) {
    handler(id, query_error(QueryFailure::Cancelled, "cancelled"), at);
  });
}

void SaClient::fail_all(QueryFailure failure, std::string_view reason, Instant now) {
  std::vector<std::pair<QueryId, mad::TransactionId>> asked;
  std::vector<QueryId> elsewhere;
  for (auto& [id, query] : queries_) {
    if (query.transaction) {
      asked.emplace_back(id, *query.transaction);
    } else if (query.question) {
      elsewhere.push_back(id);
    }
  }
  for (const QueryId id : elsewhere) {
    end_question(id, {.failure = failure, .reason = std::string{reason}});
  }
  for (const auto& [id, transaction] : asked) {
    finish(id, query_error(failure, std::string{reason}));
    static_cast<void>(gsi_.cancel(transaction, now));
  }
}

/// The SM changed: requests to the previous one may never be answered, so they are sent again.
void SaClient::restart_all(Instant now) {
  for (auto& [id, query] : queries_) {
    if (query.transaction) {
      static_cast<void>(gsi_.cancel(*std::exchange(query.transaction, std::nullopt), now));
      if (query.end <= now || !send_query(id, query, now)) {
        finish(id, query_error(QueryFailure::NotSent, "the subnet manager went elsewhere"));
      }
    }
  }
}

void SaClient::set_port(const LocalPort& port, Instant now) {
  if (port == port_) {
    return;
  }
  const bool was_ready = port_.can_query();
  const bool has_moved = port.sm_lid != port_.sm_lid || port.sm_sl != port_.sm_sl;
  port_ = port;
  paths_.clear();
  if (!port_.can_query()) {
    fail_all(QueryFailure::NotSent, "the port has gone down", now);
  } else if (was_ready && has_moved) {
    restart_all(now);
  }
  reregister_all(now);
  if (on_due_) {
    on_due_();
  }
}

void SaClient::handle_timeout(Instant now) {
  while (!ends_.empty() && ends_.begin()->first <= now) {
    const QueryId id = ends_.begin()->second;
    Query& query = queries_.at(id);
    ends_.erase(ends_.begin());
    if (query.transaction) {
      const mad::TransactionId transaction = *query.transaction;
      finish(id, query_error(QueryFailure::TimedOut, "subnet administration has not answered"));
      static_cast<void>(gsi_.cancel(transaction, now));
    } else if (query.waits_for) {
      const PathQuery path_query = *query.waits_for;
      PathHandler handler = std::move(path_queries_.at(path_query).users.at(id));
      queries_.erase(id);
      leave_path_query(id, path_query, now);
      post([id, handler = std::move(handler)](Instant at) {
        handler(id, query_error(QueryFailure::TimedOut, "subnet administration has not answered"),
                at);
      });
    }
  }
  register_due(now);
  // Handlers may start queries that complete from the cache; those are reported in the next call.
  for (std::size_t left = calls_.size(); left != 0; --left) {
    const std::function<void(Instant)> call = std::move(calls_.front());
    calls_.pop_front();
    call(now);
  }
}

Instant SaClient::deadline() const {
  if (!calls_.empty()) {
    return Instant{};
  }
  const Instant end = ends_.empty() ? Instant::never() : ends_.begin()->first;
  return std::min(end, registrations_deadline());
}

}  // namespace weft::sa
