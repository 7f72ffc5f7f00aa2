"""Turn pending outcomes into judged ones.

The package takes jobs (`model.judge_jobs.JudgeJob`). Each job is a trace with the outcomes that wait for the judge. It
delivers judgements: a final outcome for each, and the exchanges with the model.

    referrals         decides at evaluation which outcomes the judge is to give; asks nothing.
    queue             holds the jobs and works them off, through outages of the endpoint.
    judgements        loads the trace of a job and has it judged.
    panel             chooses the questions of each vote on a trace, and makes outcomes of the votes.
    questions         holds the text of each question, and reads scores from its replies.
    prompt            writes a trace as the judge is shown it, and reads a reply's text.
    asking            puts a question until its reply is valid, once for equal questions.
    budget            accounts for each HTTP request.
    client            sends each HTTP request.
    canaries, drift   put a trace to the judge again, day by day, and test whether the judge has changed.
    frozen            keeps what the judge was shown of a trace.
"""
