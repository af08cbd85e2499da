#include "core/sa/sa_user.h"

#include <mutex>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/sa/sa_port.h"

namespace weft::core {
namespace {

/// The error of the call that asked (R-SA-1, R-SA-7); `reason` says more.
[[nodiscard]] ErrorCode code_of(sa::QueryFailure failure) {
  switch (failure) {
    case sa::QueryFailure::Cancelled:
      return ErrorCode::Interrupted;
    case sa::QueryFailure::TimedOut:
      return ErrorCode::TimedOut;
    case sa::QueryFailure::NotSent:
    case sa::QueryFailure::BadAnswer:
      return ErrorCode::Io;
    case sa::QueryFailure::NoPath:
      return ErrorCode::NetworkUnreachable;
    case sa::QueryFailure::NoGroup:
      return ErrorCode::NotFound;
    case sa::QueryFailure::Refused:
      return ErrorCode::InvalidArgument;
  }
  WEFT_ASSERT(false, "every failure of a query is named above");
  return ErrorCode::Io;
}

[[nodiscard]] std::unexpected<Error> error_of(const sa::QueryError& error) {
  return std::unexpected(Error{.code = code_of(error.failure), .reason = error.reason});
}

template <class Record>
[[nodiscard]] Result<Record> result_of(const sa::Answer<Record>& answer) {
  if (!answer) {
    return error_of(answer.error());
  }
  return *answer;
}

/// Of a Get or another query with one record.
template <class Record>
[[nodiscard]] Result<Record> result_of(const sa::Answer<std::vector<Record>>& answer) {
  if (!answer) {
    return error_of(answer.error());
  }
  return answer->front();
}

}  // namespace

SaUser::~SaUser() {
  service_.mads().environment().wait_until([this] { return queries() == 0 && !has_calls(); },
                                           Instant::never());
}

std::size_t SaUser::queries() const {
  const std::lock_guard lock{service_.mads().lock()};
  return pending_.size();
}

/// With the port locked.
template <class Record>
void SaUser::finish(SaQueryId id, SaPort& port, const SaHandler<Record>& handler,
                    Result<Record> record) {
  pending_.erase(id);
  port.mad_port().defer(*this, [handler, record = std::move(record)] { handler(record); });
}

template <class Record, class Start>
Result<SaQueryId> SaUser::begin(const SaAsk& ask, SaHandler<Record> handler, Start start) {
  const auto found = service_.port(ask.device, ask.port);
  if (!found) {
    return std::unexpected(found.error());
  }
  SaPort& port = **found;
  return port.with_client([&](sa::SaClient& client, Instant now) -> Result<SaQueryId> {
    const SaQueryId id{++last_query_};
    const auto done = [this, id, &port, handler = std::move(handler)](sa::QueryId,
                                                                      const auto& answer, Instant) {
      this->template finish<Record>(id, port, handler, result_of(answer));
    };
    const auto query = start(client, sa::QueryOptions{.timeout = ask.timeout}, done, now);
    if (!query) {
      return std::unexpected(query.error());
    }
    pending_.emplace(id, Pending{.port = &port, .query = *query});
    return id;
  });
}

Result<SaQueryId> SaUser::get_path(const SaAsk& ask, const wire::PathRecord& wanted,
                                   std::uint64_t mask, SaHandler<wire::PathRecord> handler) {
  return begin(ask, std::move(handler),
               [&](sa::SaClient& client, const sa::QueryOptions& options, auto done, Instant now) {
                 return client.get_paths(sa::SaClient::Kind::Get, wanted, mask, options, done, now);
               });
}

Result<SaQueryId> SaUser::resolve_path(const SaAsk& ask, const sa::PathQuery& wanted,
                                       SaHandler<wire::PathRecord> handler) {
  return begin(ask, std::move(handler),
               [&](sa::SaClient& client, const sa::QueryOptions& options, auto done, Instant now) {
                 return client.resolve_path(wanted, options, done, now);
               });
}

Result<SaQueryId> SaUser::query_service(const SaAsk& ask, wire::MadMethod method,
                                        const wire::ServiceRecord& record, std::uint64_t mask,
                                        SaHandler<wire::ServiceRecord> handler) {
  return begin(ask, std::move(handler),
               [&](sa::SaClient& client, const sa::QueryOptions& options, auto done, Instant now) {
                 return client.query_service(method, record, mask, options, done, now);
               });
}

Result<SaQueryId> SaUser::query_guid_info(const SaAsk& ask, wire::MadMethod method,
                                          const wire::GuidInfoRecord& record, std::uint64_t mask,
                                          SaHandler<wire::GuidInfoRecord> handler) {
  return begin(ask, std::move(handler),
               [&](sa::SaClient& client, const sa::QueryOptions& options, auto done, Instant now) {
                 return client.query_guid_info(method, record, mask, options, done, now);
               });
}

Result<SaQueryId> SaUser::get_member(const SaAsk& ask, const wire::McMemberRecord& wanted,
                                     std::uint64_t mask, SaHandler<wire::McMemberRecord> handler) {
  return begin(ask, std::move(handler),
               [&](sa::SaClient& client, const sa::QueryOptions& options, auto done, Instant now) {
                 return client.get_members(sa::SaClient::Kind::Get, wanted, mask, options, done,
                                           now);
               });
}

void SaUser::cancel(SaQueryId query) {
  Pending pending;
  {
    const std::lock_guard lock{service_.mads().lock()};
    const auto found = pending_.find(query);
    if (found == pending_.end()) {
      return;
    }
    pending = found->second;
  }
  // Whoever cancels holds the device, so that its port stays; a query that is done meanwhile is
  // none that the client knows.
  pending.port->with_client(
      [&](sa::SaClient& client, Instant now) { client.cancel(pending.query, now); });
}

void SaMulticast::tell(const Result<wire::McMemberRecord>& record) {
  port_->mad_port().defer(*this, [this, record] {
    if (!is_left_) {
      handler_(*this, record);
    }
  });
}

void SaMulticast::lose_port() {
  tell(fail(ErrorCode::NoSuchDevice, "the port of the membership has gone"));
  port_ = nullptr;
}

Result<SaMulticast*> SaUser::join(Device& device, PortNumber port,
                                  const wire::McMemberRecord& wanted, std::uint64_t mask,
                                  SaMulticast::Handler handler) {
  const auto found = service_.port(device, port);
  if (!found) {
    return std::unexpected(found.error());
  }
  SaPort& of = **found;
  auto membership = std::make_unique<SaMulticast>(of, std::move(handler));
  return of.with_client([&](sa::SaClient& client, Instant now) -> Result<SaMulticast*> {
    const std::uint64_t number = of.add_membership(*membership);
    const auto id = client.join(
        wanted, mask,
        [&of, number](sa::MembershipId, const sa::Answer<wire::McMemberRecord>& record, Instant) {
          if (SaMulticast* const known = of.find_membership(number); known != nullptr) {
            known->tell(result_of(record));
          }
        },
        now);
    if (!id) {
      of.remove_membership(number);
      return std::unexpected(id.error());
    }
    membership->number_ = number;
    membership->id_ = *id;
    return membership.release();
  });
}

void SaUser::free(SaMulticast& membership) {
  SaPort* port = nullptr;
  {
    const std::lock_guard lock{service_.mads().lock()};
    membership.is_left_ = true;
    port = membership.port_;
  }
  if (port != nullptr) {
    port->with_client([&](sa::SaClient& client, Instant now) {
      client.leave(membership.id_, now);
      port->remove_membership(membership.number_);
    });
  }
  service_.mads().environment().wait_until([&] { return !membership.has_calls(); },
                                           Instant::never());
  std::unique_ptr<SaMulticast>{&membership}.reset();
}

}  // namespace weft::core
