#include "ulp/iser/session_binding.h"

#include "base/assert.h"

namespace weft::iser {

SessionBinding::~SessionBinding() {
  if (session_ != nullptr) {
    initiator_.destroy_session(*session_);
  }
}

Result<Connection*> SessionBinding::bind(EndpointId endpoint, iscsi::DatamoverClient& client) {
  if (session_ == nullptr) {
    session_ = initiator_.create_session(endpoint, options_);
    if (session_ == nullptr) {
      return fail(ErrorCode::InvalidArgument, "endpoint {} has no connection that is up", endpoint);
    }
    connection_ = initiator_.create_connection(*session_, 0);
    WEFT_ASSERT(connection_ != nullptr, "a session has a connection 0");
  }
  if (auto bound = initiator_.bind(*connection_, endpoint, true, client); !bound) {
    return std::unexpected(bound.error());
  }
  return connection_->connection();
}

Result<void> SessionBinding::start() {
  if (connection_ == nullptr) {
    return fail(ErrorCode::InvalidArgument, "no endpoint was bound");
  }
  return initiator_.start(*connection_);
}

void SessionBinding::stop(StopFlag flag) {
  if (connection_ != nullptr) {
    initiator_.stop(*connection_, flag);
  }
}

}  // namespace weft::iser
